#include "launcher/base/open_files.h"

#include <doctest/doctest.h>

#include <cerrno>

using namespace trainrun;

TEST_CASE("the soft limit on open files becomes the hard one, and what was given is kept") {
  CHECK_FALSE(open_files_given());
  rlimit limit{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  limit.rlim_cur = 100;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  for (int times = 0; times < 2; ++times) {
    raise_open_files();
    rlimit now{};
    REQUIRE(getrlimit(RLIMIT_NOFILE, &now) == 0);
    CHECK(now.rlim_cur == limit.rlim_max);
    REQUIRE(open_files_given());
    CHECK(open_files_given()->rlim_cur == 100);
    CHECK(open_files_given()->rlim_max == limit.rlim_max);
  }
}

TEST_CASE("only an error about too many files has a hint about them") {
  CHECK(open_files_hint(EMFILE).find("ulimit -Hn") != std::string::npos);
  CHECK(open_files_hint(ENFILE).find("file-nr") != std::string::npos);
  CHECK(open_files_hint(ECONNREFUSED).empty());
}

TEST_CASE("an event loop that the kernel refuses something is an error that can be tried again") {
  for (const int error : {EMFILE, ENFILE, ENOSPC}) {
    const auto told = no_more_to_wait_with(error);
    CHECK(told.code == Code::try_again);
    CHECK(told.message.find(errno_text(error)) != std::string::npos);
    CHECK_FALSE(told.hint.empty());
  }
  CHECK(no_more_to_wait_with(ENOSPC).hint.find("max_user_watches") != std::string::npos);
}
