#include "launcher/output/bar_rows.h"

#include <doctest/doctest.h>

using namespace trainrun::output;
using Lines = std::vector<std::string>;

TEST_SUITE("bar rows") {
  TEST_CASE("each row keeps its newest state, three deep, from the upper to the lower") {
    BarRows rows;
    rows.draw("a 1");
    rows.end_line();  // shown as a line
    CHECK_FALSE(rows.waits());
    CHECK(rows.moves("\rb 1\x1b[A"));
    CHECK_FALSE(rows.go_down("\rb 1\x1b[A").has_value());
    rows.end_line();
    CHECK_FALSE(rows.go_down("\rc 1\x1b[A\x1b[A\ra 2").has_value());
    CHECK(rows.moves(""));  // still a row above the lowest
    CHECK_FALSE(rows.go_down("\rb 2").has_value());
    CHECK_FALSE(rows.moves("text"));
    CHECK(rows.take() == Lines{"a 2", "b 2", "c 1"});
    CHECK_FALSE(rows.waits());
  }

  TEST_CASE("what is erased first is drawn anew, whatever ends its lines") {
    BarRows rows;  // as rich redraws three rows
    const std::string up = "\r\x1b[2K\x1b[1A\x1b[2K\x1b[1A\x1b[2K";
    CHECK_FALSE(rows.go_down(up + "one").has_value());
    CHECK_FALSE(rows.go_down("\x1b[32mtwo\x1b[0m").has_value());
    CHECK_FALSE(rows.moves("three"));
    CHECK(rows.take() == Lines{"one", "\x1b[32mtwo\x1b[0m"});
    CHECK(rows.go_down("\x1b[Aprinted") == std::optional<std::string>("printed"));
  }

  TEST_CASE("rows are bounded, and so is how far up") {
    BarRows rows;
    for (int i = 0; i < 1000; ++i) {
      rows.draw(std::to_string(i));
      rows.go_down("\x1b[60000A\x1b[99999999999A");
    }
    CHECK(rows.take().size() <= BarRows::most_rows);
    rows.forget();
    CHECK_FALSE(rows.moves("x"));
  }
}
