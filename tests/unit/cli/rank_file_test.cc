#include "cli/rank_file.h"

#include <doctest/doctest.h>

using namespace trainrun;
using namespace trainrun::cli;

TEST_CASE("a rank file is read in the order of ranks, with Open MPI's spellings") {
  const auto lines = parse_rank_file(
      "# two hosts\nrank 1 = b slot=0:0,1:2-3 // comment\n\nrank 0=user@a slots=1,4-5\r\nrank 2=+n0\n", "f");
  REQUIRE(lines);
  REQUIRE(lines->size() == 3);
  CHECK((*lines)[0].host == "user@a");
  CHECK((*lines)[0].line == 4);
  CHECK((*lines)[0].cores == std::vector<CoreRange>{{-1, 1, 1}, {-1, 4, 5}});
  CHECK((*lines)[1].cores == std::vector<CoreRange>{{0, 0, 0}, {1, 2, 3}});
  CHECK((*lines)[2].host == "+n0");
  CHECK((*lines)[2].cores.empty());
}

TEST_CASE("a socket holds for what follows it, and * is all of its cores") {
  const auto lines = parse_rank_file("rank 0=a slot=1:*\nrank 1=a slot=0:0,2\n", "f");
  REQUIRE(lines);
  CHECK((*lines)[0].cores == std::vector<CoreRange>{{1, 0, UINT32_MAX}});
  CHECK((*lines)[1].cores == std::vector<CoreRange>{{0, 0, 0}, {0, 2, 2}});
}

TEST_CASE("what is wrong in a rank file is said with its line") {
  const std::pair<std::string_view, std::string_view> rows[] = {
      {"", "f: names no rank"},
      {"rank 0=a\nrank 2=a\n", "f: there is no line for rank 1"},
      {"rank 0=a\n\nrank 0=b\n", "f:3: rank 0 stands in line 1 as well"},
      {"a slots=2\n", "f:1: 'a' is not rank N=HOST"},
      {"rank 0 a\n", "f:1: '0' is not a rank and its host"},
      {"rank 0=\n", "f:1: '0=' is not a rank and its host"},
      {"rank 9999999=a\n", "f:1: '9999999=a' is not a rank and its host"},
      {"rank 0=a core=1\n", "f:1: 'core=1' is not slot=CORES"},
      {"rank 0=a slot=p1\n", "f:1: 'slot=p1' names no cores"},
      {"rank 0=a slot=3-1\n", "f:1: 'slot=3-1' names no cores"},
      {"rank 0=a slot=\n", "f:1: 'slot=' names no cores"},
      {"rank 0=a slot=0 more\n", "f:1: 'more' is not slot=CORES"},
  };
  for (const auto& [text, message] : rows) {
    CAPTURE(text);
    const auto lines = parse_rank_file(text, "f");
    REQUIRE_FALSE(lines);
    CHECK(lines.error().message == message);
    CHECK(lines.error().code == Code::config);
  }
}
