// What the tests of discovery share: a directory, a loop with a deadline, and the certainty that no process
// is left.
#pragma once

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "launcher/base/time.h"
#include "launcher/io/loop.h"

namespace trainrun {

constexpr Duration time_limit = seconds(60);

struct Directory {
  Directory() {
    REQUIRE(::mkdtemp(path.data()) != nullptr);
    // Whatever a script starts becomes our child when its own parent has gone, so that we can wait for it.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  }
  ~Directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  std::string operator/(const std::string& name) const { return path + "/" + name; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path + "/" + name) << text;
  }
  void program(const std::string& name, const std::string& text) const {
    write(name, "#!/bin/sh\n" + text);
    std::filesystem::permissions(path + "/" + name, std::filesystem::perms::owner_all);
  }
  std::string read(const std::string& name) const {
    std::ostringstream out;
    out << std::ifstream(path + "/" + name).rdbuf();
    return out.str();
  }
  std::vector<std::string> environment() const {
    return {"PATH=" + path + ":/usr/bin:/bin", "DIR=" + path, "TRAINRUN_NP=stale"};
  }

  std::string path = "/tmp/discovery_test.XXXXXX";
};

// Runs the loop until `wanted`, which is asked after everything that happens.
class Bench {
 public:
  void happened() {
    if (wanted_ && wanted_()) loop.stop();
  }
  void run(std::function<bool()> wanted) {
    wanted_ = std::move(wanted);
    io::Timer limit(loop);
    limit.arm(io::Loop::now() + time_limit, [this] { loop.stop(); });
    loop.post([this] { happened(); });
    loop.run();
    CHECK(wanted_());
    wanted_ = nullptr;
    loop.context().restart();
  }

  io::Loop loop;

 private:
  std::function<bool()> wanted_;
};

// Returns when no process of ours is left, child or adopted; if one stays, the alarm ends the test program.
inline int wait_until_none_is_left() {
  int count = 0;
  ::alarm(60);
  for (siginfo_t info{};;) {
    if (::waitid(P_ALL, 0, &info, WEXITED) == 0) {
      ++count;
    } else if (errno != EINTR) {
      break;
    }
  }
  const int error = errno;
  ::alarm(0);
  CHECK(error == ECHILD);
  return count;
}

}  // namespace trainrun
