#include "launcher/base/utf8.h"

#include <doctest/doctest.h>

namespace trainrun {
namespace {

TEST_CASE("characters have the length that UTF-8 gives them, and what is none has none") {
  CHECK(utf8_length("a") == 1);
  CHECK(utf8_length("\xc3\xa9x") == 2);
  CHECK(utf8_length("\xe2\x82\xacx") == 3);
  CHECK(utf8_length("\xf0\x9f\x98\x80x") == 4);
  for (const auto* text :
       {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc3", "\xc3x", "\xe0\x9f\xbf", "\xed\xa0\x80",
        "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"}) {
    CAPTURE(text);
    CHECK(utf8_length(text) == 0);
    CHECK_FALSE(is_utf8(text));
  }
  CHECK(is_utf8(""));
  CHECK(is_utf8("caf\xc3\xa9 \xe2\x82\xac"));
}

TEST_CASE("what a terminal could obey is shown as bytes, and the rest as it is") {
  CHECK(printable("plain 'caf\xc3\xa9'") == "plain 'caf\xc3\xa9'");
  CHECK(printable("a\n\x1b[2J\x7f\t") == "a\\x0a\\x1b[2J\\x7f\\x09");
  CHECK(printable("\xc2\x9b"
                  "2J\x9b"
                  "2J") == "\\xc2\\x9b2J\\x9b2J");  // CSI of C1, in UTF-8 and alone
  CHECK(printable("\xc2\xa0") == "\xc2\xa0");
}

}  // namespace
}  // namespace trainrun
