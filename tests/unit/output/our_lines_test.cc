#include "launcher/output/our_lines.h"

#include <doctest/doctest.h>

#include "launcher/base/advice.h"

using namespace trainrun;
using namespace trainrun::output;

TEST_SUITE("our lines") {
  TEST_CASE("a line of ours does nothing to a terminal and makes no second line, whoever's words are in it") {
    CHECK(our_line("host a: \x1b]0;OWNED\x07\x1b[31mred\x1b[8m") ==
          "host a: \\x1b]0;OWNED\\x07\\x1b[31mred\\x1b[8m\n");
    CHECK(our_line("lost\ntrainrun: all well\r") == "lost\\x0atrainrun: all well\\x0d\n");
    CHECK(our_line("\xc2\x9b"
                   "2J") == "\\xc2\\x9b2J\n");
    CHECK(our_line("±7 ms, Zürich") == "±7 ms, Zürich\n");
  }

  TEST_CASE("an error is its message and one advice, which says `try` once") {
    CHECK(lines_of({Code::usage, "wrong"}) == std::vector<std::string>{"trainrun: wrong"});
    for (const auto* hint : {"ssh a true", "try: ssh a true"})
      CHECK(lines_of({Code::usage, "wrong", hint}) ==
            std::vector<std::string>{"trainrun: wrong", "  try: ssh a true"});
    CHECK(advice("try it by hand: ssh a") == "try it by hand: ssh a");
    CHECK(advice("try again") == "try again");
    CHECK(advice("tryst") == "try: tryst");
  }
}
