// What OpenSSH's client gets from us, with programs of the tests in its place.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdlib>

#include "launcher/base/open_files.h"
#include "tests/unit/transport/conformance.h"

using namespace trainrun;
using namespace trainrun::transport;

namespace {

// A program `ssh` that comes first in PATH, and only its own directory.
struct FakeSsh {
  explicit FakeSsh(const std::string& script) {
    testing::write_file(dir / "ssh", "#!/bin/sh\n" + script + "\n");
    REQUIRE(::chmod((dir / "ssh").c_str(), 0700) == 0);
    setenv("PATH", (std::string(dir / "") + ":" + before).c_str(), 1);
  }
  ~FakeSsh() { setenv("PATH", before.c_str(), 1); }
  FakeSsh(const FakeSsh&) = delete;
  FakeSsh& operator=(const FakeSsh&) = delete;

  const std::string before = getenv("PATH");
  testing::TempDir dir;
};

Result<Dialled> dial_with(const FakeSsh&, Duration within = time_limit) {
  io::Loop loop;
  SshOptions options;
  options.config_file = "/dev/null";
  const auto transport = kinds()[1].make(loop, options);
  return dial(loop, *transport, here, within);
}

}  // namespace

TEST_SUITE("openssh") {
  TEST_CASE(
      "ssh gets the limit on open files that we were given, our environment, and no descriptor of ours") {
    rlimit limit{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
    auto low = limit;
    low.rlim_cur = 256;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
    raise_open_files();
    const Fd open(::fcntl(0, F_DUPFD, 3));
    const FakeSsh ssh("echo \"limit $(ulimit -Sn) $MARK $(ls /proc/self/fd | wc -l)\" >&2; exit 255");
    setenv("MARK", "marked", 1);
    const auto refused = dial_with(ssh);
    unsetenv("MARK");
    ::setrlimit(RLIMIT_NOFILE, &limit);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message.find("limit 256 marked 4") != std::string::npos);
  }

  TEST_CASE("an ssh that says nothing is ended at the deadline, also if it does not want to") {
    const FakeSsh ssh("trap '' TERM; echo $$ >$0.pid; echo thinking >&2; while :; do sleep 1000; done");
    const auto late = dial_with(ssh, milliseconds(500));
    REQUIRE_FALSE(late);
    CHECK(late.error().code == Code::timeout);
    CHECK(late.error().message.find("thinking") != std::string::npos);
    const auto pid = std::atoi(testing::read_text(ssh.dir / "ssh.pid").c_str());
    REQUIRE(pid > 1);
    CHECK(::kill(pid, 0) == -1);
    CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);  // reaped
  }

  TEST_CASE("without an ssh the error says what to install") {
    const std::string before = getenv("PATH");
    setenv("PATH", "/nowhere", 1);
    io::Loop loop;
    const auto transport = kinds()[1].make(loop, SshOptions{});
    const auto refused = dial(loop, *transport, here);
    setenv("PATH", before.c_str(), 1);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Code::unreachable);
    CHECK(refused.error().message == "127.0.0.1: ssh cannot be started: No such file or directory");
    CHECK(refused.error().hint.find("openssh-client") != std::string::npos);
  }
}
