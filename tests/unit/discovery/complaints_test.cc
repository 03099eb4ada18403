#include "launcher/discovery/complaints.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

namespace trainrun {
namespace {

using Lines = std::vector<std::string>;

TEST_CASE("lines are put together from pieces, made printable and cut") {
  Complaints complaints;
  complaints.add("one\ntw");
  complaints.add("o\r\n\n  \n\x1b[31mred");
  CHECK(complaints.lines() == Lines{"'one'", "'two'"});
  complaints.end();
  CHECK(complaints.lines() == Lines{"'one'", "'two'", "'\\x1b[31mred'"});
  CHECK(complaints.last() == "'\\x1b[31mred'");

  Complaints endless;
  for (int i = 0; i < 100; ++i) endless.add(std::string(100'000, 'x'));
  endless.end();
  CHECK(endless.last() == "'" + std::string(300, 'x') + "...'");
}

TEST_CASE("five lines are kept, the others counted, and the last one is known") {
  Complaints complaints;
  complaints.add("1\n2\n3\n4\n5\n6\n7\n");
  complaints.end();
  CHECK(complaints.lines().size() == 5);
  CHECK(complaints.more() == 2);
  CHECK(complaints.last() == "'7'");
}

TEST_CASE("the same words are shown once, until others were said in between") {
  ComplaintFilter filter;
  const Instant now{};
  CHECK(filter.choose({"a", "b"}, 0, now) == Lines{"a", "b"});
  CHECK(filter.choose({"a", "b"}, 3, now).empty());
  CHECK(filter.choose({"b", "c"}, 1, now) == Lines{"c", "(1 more line)"});
  CHECK(filter.choose({}, 0, now).empty());
  CHECK(filter.choose({"a"}, 2, now) == Lines{"a", "(2 more lines)"});
}

TEST_CASE("new words each time are shown 20 times a minute") {
  ComplaintFilter filter;
  Instant now{};
  int shown = 0, muted = 0;
  for (int second = 0; second < 600; ++second, now += seconds(1)) {
    for (const auto& line : filter.choose({fmt::format("at {}", second)}, 0, now))
      ++(line.starts_with("(too much") ? muted : shown);
  }
  CHECK(shown == 200);
  CHECK(muted == 10);
}

}  // namespace
}  // namespace trainrun
