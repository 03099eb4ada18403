#include "comm/steps.h"

#include <doctest/doctest.h>

using namespace trainrun::comm;

TEST_CASE("only completed steps are progress, from the first one on and but for a pause") {
  Steps steps;
  CHECK(!steps.pulse());  // the program does not count any
  CHECK(!steps.counted());
  steps.expect();
  const auto first = steps.pulse(), second = steps.pulse();
  REQUIRE(first);
  REQUIRE(second);
  CHECK(first->odd != second->odd);  // each is news
  steps.done(5);
  const auto step = steps.pulse();
  REQUIRE(step);
  CHECK(step->number == 5);
  CHECK(!steps.pulse());
  steps.pause(true);
  const auto pause = steps.pulse(), still = steps.pulse();
  REQUIRE(pause);
  REQUIRE(still);
  CHECK(pause->odd != still->odd);
  steps.pause(false);
  CHECK(!steps.pulse());
  steps.done(6);
  CHECK(steps.pulse()->number == 6);
}
