#include "launcher/base/end_by_signal.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <initializer_list>

namespace trainrun {
namespace {

TEST_CASE("it kills, without a core, whatever was ignored or blocked") {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    CAPTURE(number);
    const auto child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      ::signal(number, SIG_IGN);
      sigset_t all;
      sigfillset(&all);
      ::sigprocmask(SIG_BLOCK, &all, nullptr);
      ::_exit(end_by_signal(number));
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == number);
    CHECK_FALSE(WCOREDUMP(status));
  }
}

}  // namespace
}  // namespace trainrun
