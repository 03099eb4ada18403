#include "launcher/transport/dial_socket.h"

#include <doctest/doctest.h>

using namespace trainrun;
using transport::time_for_address;

TEST_SUITE("dial socket") {
  TEST_CASE("a dead address leaves time for those that come after it, however little there is") {
    CHECK(time_for_address(seconds(60), 1) == seconds(5));
    CHECK(time_for_address(seconds(4), 1) == seconds(2));
    CHECK(time_for_address(seconds(4), 3) == seconds(1));
    CHECK(time_for_address(seconds(1), 0) == Duration::max());
    // Eight dead addresses in turn: the last still gets its part.
    Duration left = seconds(3);
    for (std::size_t others = 7; others > 0; --others) left -= time_for_address(left, others);
    CHECK(left >= milliseconds(300));
  }
}
