// Lines that are too long to be held until they end.
#include <doctest/doctest.h>

#include "tests/unit/output/muxes.h"

using namespace trainrun;
using namespace trainrun::output;

TEST_SUITE("long lines") {
  TEST_CASE("a line above the limit is shown in pieces that join, where nobody else writes") {
    Mux mux(plain_style(2), no_clock);
    std::string shown, piece(50'000, 'x');
    for (int i = 0; i < 50; ++i) mux.feed(0, Output::out, piece, shown);
    CHECK(shown.size() > 2 * Mux::longest_line);
    mux.feed(0, Output::out, "end\nnext\n", shown);
    CHECK(shown == "[0] " + std::string(50 * 50'000, 'x') + "end\n[0] next\n");
    CHECK_FALSE(mux.split_rank());
  }

  TEST_CASE("a line above the limit is split where another rank writes, and no byte of it is lost") {
    Mux mux(plain_style(2), no_clock);
    std::string shown, piece(Mux::longest_line + 1, 'x');
    mux.feed(1, Output::out, piece, shown);
    mux.feed(0, Output::out, "other\n", shown);
    REQUIRE(mux.split_rank());
    CHECK(*mux.split_rank() == 1);
    mux.feed(1, Output::out, "end\n", shown);
    CHECK(shown == "[1] " + piece + "\n[0] other\n[1] end\n");
  }

  TEST_CASE("a line of ordinary length that is interrupted is not called too long") {
    Mux mux(plain_style(2), no_clock);
    std::string shown, err;
    mux.feed(1, Output::out, std::string(Mux::longest_line + 1, 'x'), shown);
    mux.feed(1, Output::out, "\nshort", shown);
    mux.show_begun(shown, err);
    mux.show_begun(shown, err);
    mux.feed(0, Output::out, "other\n", shown);
    CHECK(shown.ends_with("[1] short\n[0] other\n"));
    CHECK_FALSE(mux.split_rank());
  }

  TEST_CASE(
      "a line above the limit is cut on a terminal, and where a line of ours comes between it is split") {
    auto style = plain_style(1);
    style.terminal_err = true;
    Mux mux(style, no_clock);
    std::string out, err;
    mux.feed(0, Output::out, std::string(Mux::longest_line + 1, 'x'), out);
    CHECK_FALSE(mux.split_rank());
    mux.end_open_lines(out, err);
    CHECK(mux.split_rank());
    Mux other(style, no_clock);
    other.feed(0, Output::err, std::string(Mux::longest_line + 1, 'x'), err);
    CHECK(err.ends_with("x\n"));
    CHECK(other.split_rank());
  }

  TEST_CASE("what is held in all is bounded: the longest line is cut first") {
    Mux mux(plain_style(32), no_clock);
    std::string shown;
    for (std::uint32_t rank = 0; rank < 16; ++rank)
      mux.feed(rank, Output::out, std::string(rank == 7 ? 1'048'000 : 1'040'000, 'a'), shown);
    CHECK(shown.empty());
    mux.feed(16, Output::out, std::string(300'000, 'b'), shown);
    CHECK(shown.starts_with("[ 7] aaa"));
    CHECK(shown.size() == 5 + 1'048'000);
  }
}
