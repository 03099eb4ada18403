#include "launcher/agent/addressees.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>

#include "launcher/io/spawn.h"

using namespace trainrun;
using namespace trainrun::agent;

namespace {

// A program that says on its stdout when all of it runs. Ended with its group.
struct Running {
  explicit Running(const std::string& script) {
    auto out = make_pipe();
    REQUIRE(out);
    const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    io::SpawnRequest request;
    request.path = "/bin/bash";
    request.argv = {"bash", "-c", script};
    request.env = {"PATH=/usr/bin:/bin"};
    request.directory = "/";
    request.stdin_fd = request.stderr_fd = null.get();
    request.stdout_fd = out->second.get();
    pid = io::spawn(request).pid;
    REQUIRE(pid > 0);
    out->second.reset();
    char byte = 0;
    REQUIRE(::read(out->first.get(), &byte, 1) == 1);
  }
  ~Running() {
    ::kill(-pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  pid_t pid = -1;
};

std::size_t count(const std::string& script) {
  const Running program(script);
  const auto found = addressees(ProcessTree(), program.pid);
  CHECK(found.front() == program.pid);
  return found.size();
}

}  // namespace

TEST_CASE("a signal for a rank goes to its program, and through shells to what they run") {
  const std::string sleeper = "sleep 60 >/dev/null";
  CHECK(count("echo; exec " + sleeper) == 1);
  CHECK(count(sleeper + " & echo; wait") == 2);
  CHECK(count(sleeper + " & (" + sleeper + " & echo; wait); wait") == 4);
  // Below a program nobody is meant: the shell that it has started, and what that runs.
  CHECK(count("exec env python3 -c 'import subprocess; subprocess.run([\"sh\", \"-c\", \"echo; sleep 60; "
              ":\"])'") == 1);
}
