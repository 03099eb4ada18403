#include "launcher/core/stall_watch.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace trainrun;
using core::StallWatch;
using Lines = std::vector<std::string>;

namespace {

constexpr std::uint64_t mib = 1u << 20;
const Instant start{seconds(1000)};

// Ranks 0 to 3 are workers 10 to 13.
struct Scene {
  StallWatch watch{seconds(60)};
  Instant now = start;

  void says(std::uint32_t rank, std::uint64_t sequence, bool inside,
            std::uint32_t group = StallWatch::all_ranks, std::uint32_t members = 0) {
    watch.operated({10 + rank}, {"allreduce", sequence, 8 * mib, inside, group, members}, now);
  }
  Lines look(Duration after) {
    now = start + after;
    return watch.look({{Rank{0}, {10}}, {Rank{1}, {11}}, {Rank{2}, {12}}, {Rank{3}, {13}}}, now);
  }
};

}  // namespace

TEST_CASE("who has not come to an operation in which others wait is told once") {
  Scene scene;
  for (const std::uint32_t rank : {0, 1, 3}) scene.says(rank, 812, true);
  scene.says(2, 810, false);
  CHECK(scene.watch.next_look() == start + seconds(60));
  CHECK(scene.look(seconds(60)) == Lines{"rank 2 is 2 operations behind: ranks 0-1,3 have waited 1m00s in "
                                         "allreduce number 812 (8 MiB)"});
  CHECK(scene.look(seconds(120)).empty());
  for (const std::uint32_t rank : {0, 1, 3}) scene.says(rank, 813, true);
  CHECK(scene.look(seconds(181)).size() == 1);
}

TEST_CASE("of who has gone silent it is not known how far it got") {
  Scene scene;
  for (const std::uint32_t rank : {0, 1}) scene.says(rank, 6, true);
  scene.says(2, 4, false);
  scene.now = start + seconds(60);
  CHECK(scene.watch.look({{Rank{0}, {10}}, {Rank{1}, {11}}, {Rank{2}, {12}}, {Rank{3}, {13}}}, scene.now,
                         {Rank{2}, Rank{3}}) == Lines{"ranks 2-3 have gone silent (stopped?): ranks 0-1 have "
                                                      "waited 1m00s in allreduce number 6 (8 MiB)"});
}

TEST_CASE("one who never called any is behind as well, and different ranks by different numbers") {
  Scene scene;
  scene.says(0, 5, true);
  scene.says(1, 4, true);
  scene.says(2, 1, false);
  CHECK(scene.look(seconds(60)) == Lines{"rank 1 is 1 operation behind, rank 2 is 4 operations behind, rank "
                                         "3 is 5 operations behind: rank 0 "
                                         "has waited 1m00s in allreduce number 5 (8 MiB)"});
}

TEST_CASE("many that are unequally far behind are counted") {
  StallWatch watch{seconds(60)};
  std::vector<std::pair<Rank, WorkerId>> ranks;
  for (std::uint32_t rank = 0; rank < 8; ++rank) {
    ranks.push_back({Rank{rank}, {rank}});
    watch.operated({rank}, {"allreduce", 20 - rank, 0, rank == 0}, start);
  }
  const auto lines = watch.look(ranks, start + seconds(60));
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("rank 4 is 4 operations behind, 3 more are late: rank 0 has waited") !=
        std::string::npos);
}

TEST_CASE("a look that comes too early is followed by one in time") {
  Scene scene;
  for (const std::uint32_t rank : {0, 1, 2, 3}) scene.says(rank, 1, true);
  scene.now = start + seconds(2);
  for (const std::uint32_t rank : {1, 2, 3}) scene.says(rank, 9, false);
  scene.says(0, 10, true);
  CHECK(scene.look(seconds(60)).empty());
  CHECK(scene.watch.next_look() == start + seconds(62));
  CHECK(scene.look(seconds(62)).size() == 1);
}

TEST_CASE("nobody is blamed who is not late") {
  Scene scene;
  SUBCASE("all are in the operation") {
    for (const std::uint32_t rank : {0, 1, 2, 3}) scene.says(rank, 7, true);
    CHECK(scene.look(seconds(60)).empty());
  }
  SUBCASE("some are through it") {
    for (const std::uint32_t rank : {0, 1, 2}) scene.says(rank, 7, true);
    scene.says(3, 7, false);
    CHECK(scene.look(seconds(60)).empty());
  }
  SUBCASE("they have not waited long") {
    scene.says(0, 7, true);
    CHECK(scene.look(seconds(59)).empty());
  }
  SUBCASE("the rest is in no such group") {
    scene.says(0, 7, true, 99);
    scene.says(1, 7, true, 99);
    scene.says(2, 3, false);
    scene.says(3, 3, false);
    CHECK(scene.look(seconds(60)).empty());
  }
  SUBCASE("the launcher stood still") {
    scene.says(0, 7, true);
    CHECK(scene.look(seconds(600)).empty());
    CHECK(scene.look(seconds(660)).size() == 1);
  }
}

TEST_CASE("who says that it is in another group's operation waits in none of this one any more") {
  Scene scene;
  for (const std::uint32_t rank : {0, 1, 2}) scene.says(rank, 5, true);
  scene.says(3, 4, true);
  for (const std::uint32_t rank : {0, 1, 2, 3}) scene.says(rank, 0, true, 7);
  CHECK(scene.look(seconds(60)).empty());
}

TEST_CASE("members that have not come to a group's operation, or to the group, are counted") {
  Scene scene;
  SUBCASE("none of them ever said that it is in the group") {
    scene.says(0, 3, true, 99, 3);
    CHECK(scene.look(seconds(60)) == Lines{"2 of 3 members have not come: rank 0 has waited 1m00s in "
                                           "allreduce number 3 (8 MiB)"});
    CHECK(scene.look(seconds(120)).empty());
  }
  SUBCASE("one is behind") {
    scene.says(0, 3, true, 99, 3);
    scene.says(1, 2, false, 99, 3);
    CHECK(scene.look(seconds(60)) == Lines{"2 of 3 members have not come: rank 0 has waited 1m00s in "
                                           "allreduce number 3 (8 MiB)"});
  }
  SUBCASE("all that are late have been in it before") {
    scene.says(0, 3, true, 99, 3);
    scene.says(1, 1, false, 99, 3);
    scene.says(2, 2, false, 99, 3);
    CHECK(scene.look(seconds(60)) == Lines{"ranks 1-2 have not come: rank 0 has waited 1m00s in "
                                           "allreduce number 3 (8 MiB)"});
  }
  SUBCASE("one has been in it, and gone on to another group") {
    scene.says(0, 3, true, 99, 2);
    scene.says(1, 3, false, 99, 2);
    scene.says(1, 1, false, 98, 2);
    CHECK(scene.look(seconds(60)).empty());
  }
  SUBCASE("it is being made, and then has an operation") {
    scene.watch.operated({10}, {"creation of a group among ranks 0-1", 0, 0, true, 99, 2}, start);
    CHECK(scene.look(seconds(60)) == Lines{"1 of 2 members has not come: rank 0 has waited 1m00s in creation "
                                           "of a group among ranks 0-1"});
    CHECK(scene.look(seconds(120)).empty());
    scene.says(0, 1, true, 99, 2);
    CHECK(scene.look(seconds(180)).size() == 1);
  }
  SUBCASE("all are in it") {
    for (const std::uint32_t rank : {0, 1, 2}) scene.says(rank, 3, true, 99, 3);
    CHECK(scene.look(seconds(60)).empty());
  }
  SUBCASE("that of all ranks is being connected") {
    scene.says(0, 0, true, StallWatch::all_ranks, 4);
    CHECK(scene.look(seconds(60)).empty());
  }
}

TEST_CASE("who waits elsewhere is said to be there, and not to be so many operations behind") {
  Scene scene;
  for (const std::uint32_t rank : {0, 1, 2, 3}) scene.says(rank, 5, false);
  scene.watch.operated({10}, {"creation of a group among ranks 0-1", 0, 0, true, 99, 2}, start);
  scene.says(3, 1, false, 98, 2);  // and has gone on since, nobody knows how far
  scene.says(2, 900, true);
  const auto lines = scene.look(seconds(60));
  REQUIRE(lines.size() == 2);
  CHECK(std::ranges::count(
            lines,
            "rank 0 is in creation of a group among ranks 0-1, rank 1 is 895 operations behind, "
            "rank 3 has not come: rank 2 has waited 1m00s in allreduce number 900 (8 MiB)") == 1);
  CHECK(std::ranges::count(lines,
                           "1 of 2 members has not come: rank 0 has waited 1m00s in creation of a group "
                           "among ranks 0-1") == 1);
}

TEST_CASE("of many operations in which ranks wait those are told that began first") {
  StallWatch watch{seconds(60)};
  std::vector<std::pair<Rank, WorkerId>> ranks;
  for (std::uint32_t rank = 0; rank < 100; ++rank) {
    ranks.push_back({Rank{rank}, {rank}});
    watch.operated({rank}, {"receive", 1, 0, true, 200 - rank, 2}, start - milliseconds(rank));
  }
  const auto lines = watch.look(ranks, start + seconds(60));
  REQUIRE(lines.size() == 5);
  CHECK(lines[0].find("rank 99 has waited") != std::string::npos);
  CHECK(lines[4] == "ranks wait in operations of 96 more groups");
  CHECK(watch.look(ranks, start + seconds(61)).empty());
}

TEST_CASE("of a rank with many groups the latest are known") {
  for (const std::uint32_t group : {1, 100}) {
    Scene scene;
    for (std::uint32_t each = 1; each <= 100; ++each) scene.says(1, 7, false, each, 2);
    scene.says(0, 7, true, group, 2);
    CHECK(scene.look(seconds(60)).size() == (group == 1 ? 1 : 0));
  }
}

TEST_CASE("a group's own members are compared, and another world knows nothing of them") {
  Scene scene;
  scene.says(0, 7, true, 99, 2);
  scene.says(1, 6, false, 99, 2);
  scene.says(1, 900, true);
  CHECK(scene.look(seconds(60)).size() == 2);  // ranks 0, 2 and 3 are behind in that of all
  scene.watch.begin_world();
  CHECK(scene.look(seconds(120)).empty());
  CHECK_FALSE(scene.watch.next_look());
}
