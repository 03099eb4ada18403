#include "launcher/base/fault.h"

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <string>

namespace trainrun {
namespace {

TEST_CASE("a named point fails or waits as configured, and others do nothing") {
  fault::configure("a=fail,b=fail:28,c=delay:20,c=fail:5,nonsense,=,d=");
  CHECK(fault::point("a") == EIO);
  CHECK(fault::point("b") == 28);
  const auto before = std::chrono::steady_clock::now();
  CHECK(fault::point("c") == 5);
  CHECK(std::chrono::steady_clock::now() - before >= std::chrono::milliseconds(20));
  CHECK(fault::point("d") == std::nullopt);
  CHECK(fault::point("e") == std::nullopt);
  fault::configure("");
  CHECK(fault::point("a") == std::nullopt);
}

TEST_CASE("a named point ends the process when it is passed for the given time, and not before") {
  for (const std::string how : {"kill", "exit"}) {
    const auto child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      fault::configure("a=" + how + ":3,b=" + how);
      for (int i = 0; i < 3; ++i) static_cast<void>(fault::point("a"));
      ::_exit(9);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    if (how == "kill") CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
    if (how == "exit") CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 3));
  }
}

}  // namespace
}  // namespace trainrun
