#include "launcher/base/wrapper.h"

#include <doctest/doctest.h>

namespace trainrun {
namespace {

TEST_CASE("nice runs another program by its name or its path; env and python3 are none of these") {
  CHECK(is_wrapper("nice"));
  CHECK(is_wrapper("/usr/bin/taskset"));
  CHECK_FALSE(is_wrapper("nicer"));
  CHECK_FALSE(is_wrapper("env"));
  CHECK_FALSE(is_wrapper("/opt/nice/python3"));
  CHECK_FALSE(is_wrapper(""));
}

}  // namespace
}  // namespace trainrun
