#include "launcher/agent/store_watch.h"

#include <doctest/doctest.h>

using namespace trainrun;

TEST_CASE("ranks are looked at until they have met, less and less often, and not for ever") {
  using agent::next_look;
  CHECK(next_look(1, false, false) == seconds(1));
  CHECK(next_look(9, false, true) == seconds(1));
  CHECK(next_look(10, false, true) == seconds(10));
  CHECK_FALSE(next_look(1, true, true));
  CHECK(next_look(20, false, false) == seconds(10));
  CHECK_FALSE(next_look(21, false, false));  // they have no PyTorch
  CHECK(next_look(21, false, true) == seconds(30));
  CHECK(next_look(78, false, true) == seconds(30));
  CHECK_FALSE(next_look(79, false, true));
}
