#include "launcher/base/rank_ranges.h"

#include <doctest/doctest.h>

namespace trainrun {

TEST_CASE("ranks that follow each other are a range") {
  CHECK(as_ranges({}) == "");
  CHECK(as_ranges({3}) == "3");
  CHECK(as_ranges({0, 1}) == "0-1");
  CHECK(as_ranges({0, 1, 2, 5, 7, 8}) == "0-2,5,7-8");
}

}  // namespace trainrun
