#include "launcher/agent/addressees.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <string>
#include <vector>

#include "launcher/base/strings.h"
#include "launcher/io/spawn.h"

using namespace trainrun;
using namespace trainrun::agent;

namespace {

// A program; each part of it that is to be there prints one byte when it is. Ended with its group.
struct Running {
  Running(const std::string& script, int parts) {
    auto out = make_pipe();
    REQUIRE(out);
    const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    io::SpawnRequest request;
    request.path = "/bin/bash";
    request.argv = {"bash", "-c", script};
    request.env = {"PATH=/usr/bin:/bin"};
    request.directory = "/";
    request.stdin_fd = null.get();
    request.stdout_fd = request.stderr_fd = out->second.get();
    pid = io::spawn(request).pid;
    REQUIRE(pid > 0);
    out->second.reset();
    char byte = 0;
    for (int i = 0; i < parts; ++i) REQUIRE(::read(out->first.get(), &byte, 1) == 1);
  }
  ~Running() {
    ::kill(-pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  pid_t pid = -1;
};

const std::string sleeper = "perl -e 'syswrite(STDERR, \".\"); sleep 60'";
const std::string saver =
    "python3 -c 'import os, signal, time; signal.signal(signal.SIGTERM, print); os.write(1, b\".\\n\"[:1 + "
    "(os.environ.get(\"LINE\") == \"1\")]); time.sleep(60)'";

// The names of those that a SIGTERM goes to, in order; the leader is "rank" if it is a shell.
std::vector<std::string> meant(const std::string& script, int parts = 1) {
  const Running program(script, parts);
  std::vector<std::string> names;
  for (const auto pid : addressees(ProcessTree(), program.pid, SIGTERM)) {
    const auto name = read_file(fmt::format("/proc/{}/comm", pid), 64).value_or("");
    names.push_back(pid == program.pid && is_shell(pid) ? "rank" : std::string(trim(name)));
  }
  std::sort(names.begin(), names.end());
  return names;
}
using Names = std::vector<std::string>;

}  // namespace

TEST_SUITE("addressees") {
  TEST_CASE("a signal for a rank goes to its program alone") {
    CHECK(meant("exec " + sleeper) == Names{"perl"});
    // Not to what that runs, be it shells.
    CHECK(meant("exec env python3 -c 'import subprocess; subprocess.run([\"sh\", \"-c\", \"echo; sleep 60; "
                ":\"])'") == Names{"python3"});
  }

  TEST_CASE("through a shell it goes to a program that handles it, and the shell waits for that") {
    CHECK(meant(saver + "; exit 3") == Names{"python3"});
    CHECK(meant("(" + saver + "; true); true") == Names{"python3"});
    CHECK(meant(saver + " & wait") == Names{"python3"});
  }

  TEST_CASE("a shell with nothing below it that handles the signal gets it too, or its script would go on") {
    CHECK(meant("while :; do " + sleeper + "; done") == Names{"perl", "rank"});
    CHECK(meant(sleeper + " & (" + sleeper + " & wait); wait", 2) == Names{"bash", "perl", "perl", "rank"});
  }

  TEST_CASE("a shell that runs nothing gets it itself") {
    CHECK(meant("echo; while :; do :; done") == Names{"rank"});
  }

  TEST_CASE("a filter that reads what the program writes is left to end by itself") {
    for (const std::string filter : {"tee /dev/null", "while read -r line; do echo \"$line\"; done"})
      CHECK(meant("export LINE=1; " + saver + " | " + filter + "; true") == Names{"python3"});
    CHECK(meant("exec > >(tee /dev/null); " + saver + "; true") == Names{"python3"});
    // One that handles the signal is no mere filter.
    CHECK(meant(sleeper + " | " + saver + "; true", 2) == Names{"perl", "python3"});
  }

  TEST_CASE("a shell with a trap gets the signal, with what it waits for, but not what it put aside") {
    const std::string trap = "trap : TERM; ";
    CHECK(meant(trap + saver + "; true") == Names{"python3", "rank"});
    CHECK(meant(trap + saver + " & wait") == Names{"rank"});
    // A trap on the end would run at once, before the program has saved.
    CHECK(meant("trap : EXIT; " + saver + "; true") == Names{"python3"});
    CHECK(meant("trap : EXIT; " + sleeper + "; true") == Names{"perl", "rank"});
  }

  TEST_CASE("a loop in the background gets it with what it runs, or it would outlive the program") {
    CHECK(meant("(while :; do " + sleeper + "; done) & " + saver + "; true", 2) ==
          Names{"bash", "perl", "python3"});
  }
}
