#include "launcher/base/time.h"

#include <doctest/doctest.h>

namespace trainrun {
namespace {

TEST_CASE("durations are read in every form that people write") {
  const std::pair<const char*, milliseconds> table[] = {
      {"0", milliseconds(0)},          {"90", milliseconds(90000)},
      {"90s", milliseconds(90000)},    {"1.5", milliseconds(1500)},
      {"250ms", milliseconds(250)},    {"2m", milliseconds(120000)},
      {"1h", milliseconds(3600000)},   {"1d", milliseconds(86400000)},
      {"1:30", milliseconds(90000)},   {"1:00:00", milliseconds(3600000)},
      {"0.5h", milliseconds(1800000)}, {".5", milliseconds(500)}};
  for (const auto& [text, value] : table) {
    CAPTURE(text);
    const auto duration = parse_duration(text);
    REQUIRE(duration.has_value());
    CHECK(*duration == value);
  }
}

TEST_CASE("what is no duration, negative or absurdly long is refused") {
  for (const auto* text : {"",        " ",   "s",  "ms",   ".",   "-1",    "+1",
                           "1 s",     "1e3", "1x", "1..2", "nan", "inf",   "1:60",
                           "1:2:3:4", ":",   "1:", "1:-1", "11y", "4000d", "999999999999999",
                           "1sm",     "0x10"}) {
    CHECK_MESSAGE(!parse_duration(text), text);
  }
}

TEST_CASE("durations are written short, for people") {
  CHECK(format_duration(milliseconds(0)) == "0.00 s");
  CHECK(format_duration(milliseconds(210)) == "0.21 s");
  CHECK(format_duration(milliseconds(3000)) == "3.0 s");
  CHECK(format_duration(seconds(125)) == "2m05s");
  CHECK(format_duration(seconds(3725)) == "1h02m");
}

}  // namespace
}  // namespace trainrun
