#include "launcher/io/stops.h"

#include <doctest/doctest.h>

using namespace trainrun;
using io::Stops;

namespace {

Instant at(int second) { return Instant(seconds(second)); }

}  // namespace

TEST_SUITE("stops") {
  TEST_CASE("without a stop both times are the same") {
    const Stops none;
    CHECK(none.running(at(7)) == at(7));
    CHECK(none.real(at(7)) == at(7));
    CHECK(none.last().first == none.last().second);
  }

  TEST_CASE("what lies after a stop is earlier by its length, what lies within is its beginning") {
    Stops stops;
    stops.add(at(10), at(15));
    stops.add(at(20), at(100));
    struct Row {
      int real, running;
    };
    for (const auto& row : {Row{9, 9}, Row{10, 10}, Row{12, 10}, Row{15, 10}, Row{18, 13}, Row{20, 15},
                            Row{60, 15}, Row{100, 15}, Row{101, 16}}) {
      CAPTURE(row.real);
      CHECK(stops.running(at(row.real)) == at(row.running));
    }
    CHECK(stops.last() == std::pair(at(20), at(100)));
  }

  TEST_CASE("what was due when a stop began is due at its end") {
    Stops stops;
    stops.add(at(10), at(15));
    stops.add(at(20), at(100));
    struct Row {
      int running, real;
    };
    for (const auto& row : {Row{9, 9}, Row{10, 15}, Row{13, 18}, Row{15, 100}, Row{16, 101}}) {
      CAPTURE(row.running);
      CHECK(stops.real(at(row.running)) == at(row.real));
    }
  }

  TEST_CASE("a stop without a length is none") {
    Stops stops;
    stops.add(at(10), at(10));
    stops.add(at(12), at(11));
    CHECK(stops.running(at(20)) == at(20));
  }

  TEST_CASE("however often it is stopped, all of it is left out") {
    Stops stops;
    for (int i = 0; i < 10'000; ++i) stops.add(at(2 * i), at(2 * i + 1));
    CHECK(stops.running(at(20'000)) == at(10'000));
    CHECK(stops.real(at(10'000)) == at(20'000));
  }
}
