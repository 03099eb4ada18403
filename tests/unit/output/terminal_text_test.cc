#include "launcher/output/terminal_text.h"

#include <doctest/doctest.h>

using namespace trainrun;
using namespace trainrun::output;

TEST_SUITE("terminal text") {
  TEST_CASE("worker text cannot command the terminal") {
    struct Row {
      std::string_view given, shown;
    };
    const Row rows[] = {
        {"plain\ttext", "plain\ttext"},
        {"\x1b]0;title\x07", "^[]0;title^G"},                       // OSC
        {"\x1b[2J\x1b[H", "^[[2J^[[H"},                             // CSI
        {"\x1b[?1049h", "^[[?1049h"},                               //
        {"\x1b", "^["},                                             // alone
        {"\x1bPq\x1b\\", "^[Pq^[\\"},                               // DCS
        {"\x1b[31mred", "\x1b[31mred\x1b[0m"},                      // colours stay, and are reset
        {"\x1b[38;5;196mx\x1b[m", "\x1b[38;5;196mx\x1b[m\x1b[0m"},  //
        {"\x1b[31", "^[[31"},                                       // a colour that is cut
        {"\xc2\x9b"
         "2J",
         "\\x9b2J"},  // C1 in UTF-8
        {"\x9b"
         "2J",
         "\\x9b2J"},  // C1 as a byte
        {"\xc3\xa9 \xe2\x80\x93 \xf0\x9f\x98\x80", "\xc3\xa9 \xe2\x80\x93 \xf0\x9f\x98\x80"},
        {"\xe2\x80", "\\xe2\\x80"},           // a character that is cut
        {"\xc0\x9b", "\\xc0\\x9b"},           // overlong
        {"\xe0\x82\x9b", "\\xe0\\x82\\x9b"},  // overlong
        {"a\x7f\b", "a^?^H"},
    };
    for (const auto& row : rows) {
      CAPTURE(row.given);
      CHECK(neutralised(row.given) == row.shown);
    }
    CHECK(neutralised(std::string(1, '\0')) == "^@");
  }

  TEST_CASE("colours alone are taken away") {
    CHECK(without_colours("\x1b[31mred\x1b[0m \x1b[2J") == "red \x1b[2J");
  }
}
