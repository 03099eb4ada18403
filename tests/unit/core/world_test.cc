#include "launcher/core/world.h"

#include <doctest/doctest.h>

using namespace trainrun;
using namespace trainrun::core;

namespace {

// Two hosts with two ranks each.
struct WorldBench {
  WorldBench() : world(two_by_two()) {
    for (const auto& seat : world.seats()) members.push_back(world.order(seat, Instant{}));
    world.begin(members);
  }
  static Placement two_by_two() {
    Placement placement{Generation{1}, {}, 0};
    for (std::uint32_t i = 0; i < 4; ++i) placement.seats.push_back(Seat{.rank = {i}, .host = {i / 2}});
    placement.groups = number_seats(placement.seats);
    return placement;
  }
  void become(WorkerId id, WorkerState state, ExitStatus status = {}) {
    world.change(id, [&](Worker& worker) {
      worker.state = state;
      worker.status = std::move(status);
    });
    CHECK(world.broken_invariant().empty());
  }

  World world;
  std::vector<WorkerId> members;
};

}  // namespace

TEST_CASE("World: what is counted follows each worker") {
  WorldBench bench;
  auto& world = bench.world;
  CHECK(world.counts().members == 4);
  CHECK(world.all_members(WorkerState::ordered));
  CHECK(world.counts().awaited_members == 4);  // their starts
  for (const auto id : bench.members) bench.become(id, WorkerState::spawned);
  CHECK(world.counts().survivors == 4);
  CHECK(world.counts().awaited_members == 0);
  CHECK(world.counts().alive_without_failure == 4);

  SUBCASE("one finishes well") {
    bench.become(bench.members[0], WorkerState::exited, ExitStatus::exited(0));
    CHECK(world.counts().ended_well == 1);
    CHECK(world.counts().survivors == 3);
    CHECK(world.has_live_members({0}));  // its last output may still come
    bench.become(bench.members[0], WorkerState::finished, ExitStatus::exited(0));
    bench.become(bench.members[1], WorkerState::finished, ExitStatus::exited(1));
    CHECK_FALSE(world.has_live_members({0}));
    CHECK(world.counts().finished_badly == 1);
  }
  SUBCASE("one is condemned, and then killed") {
    world.doom(bench.members[2], Fate::condemned);
    CHECK(world.counts().to_end == 1);
    CHECK(world.counts().awaited_members == 1);
    CHECK(world.counts().survivors == 3);
    world.doom(bench.members[2], Fate::killed);
    CHECK(world.counts().to_end == 1);
    world.doom(bench.members[2], Fate::asked_to_leave);  // too late
    CHECK(world.at(bench.members[2]).killed());
    bench.become(bench.members[2], WorkerState::exited, ExitStatus::killed(9, false));
    CHECK(world.counts().to_end == 0);
    CHECK(world.counts().ended_well == 0);
  }
  SUBCASE("one that was asked to leave did not finish by itself") {
    world.doom(bench.members[0], Fate::asked_to_leave);
    bench.become(bench.members[0], WorkerState::finished, ExitStatus::exited(0));
    CHECK(world.counts().ended_well == 0);
  }
  SUBCASE("one fails") {
    world.failed(bench.members[3], {bench.members[3], {3}, {1}, 7, ExitStatus::exited(1)}, "no memory");
    CHECK(world.failed() == std::set{bench.members[3]});
    CHECK(world.counts().alive_without_failure == 3);
    world.change(bench.members[3], [](Worker& worker) { worker.member = false; });
    CHECK(world.failed().empty());
  }
  SUBCASE("members wait for their next place") {
    CHECK(world.counts().took_part == 0);
    for (const auto id : {bench.members[0], bench.members[1]})
      world.change(id, [](Worker& worker) { worker.waits = worker.joined = true; });
    CHECK(world.counts().members_that_wait == 2);
    CHECK(world.counts().survivors_that_wait == 2);
    CHECK(world.counts().took_part == 2);
    world.doom(bench.members[0], Fate::condemned);
    CHECK(world.counts().members_that_wait == 2);
    CHECK(world.counts().survivors_that_wait == 1);
    bench.become(bench.members[1], WorkerState::exited, ExitStatus::exited(0));
    CHECK(world.counts().members_that_wait == 1);
    CHECK(world.counts().survivors_that_wait == 0);
    world.change(bench.members[1], [](Worker& worker) { worker.joined = false; });
    CHECK(world.counts().took_part == 1);
    world.change(bench.members[1], [](Worker& worker) { worker.has_state = true; });
    CHECK(world.counts().took_part == 2);
  }
  SUBCASE("who has ended with 0 and whose output is not through has not finished badly, nor well at once") {
    bench.become(bench.members[0], WorkerState::exited, ExitStatus::exited(1));
    CHECK(world.counts().finished_badly == 0);
    CHECK(world.counts().ended_well == 0);
    bench.become(bench.members[1], WorkerState::finished, ExitStatus::exited(0));
    CHECK(world.counts().finished_badly == 0);
    CHECK_FALSE(world.all_members(WorkerState::finished));
    for (const auto id : bench.members) bench.become(id, WorkerState::finished, ExitStatus::exited(1));
    CHECK(world.counts().finished_badly == 4);
    CHECK(world.all_members(WorkerState::finished));
  }
  SUBCASE("one that was dismissed counts as such while it lives") {
    world.change(bench.members[0], [](Worker& worker) { worker.member = false; });
    CHECK(world.dismissed() == std::set{bench.members[0]});
    CHECK(world.counts().survivors == 3);
    bench.become(bench.members[0], WorkerState::exited, ExitStatus::exited(0));
    CHECK(world.dismissed().empty());
    CHECK(world.has_unfinished({0}));
    bench.become(bench.members[0], WorkerState::finished, ExitStatus::exited(0));
    bench.become(bench.members[1], WorkerState::finished, ExitStatus::exited(0));
    CHECK_FALSE(world.has_unfinished({0}));
    CHECK(world.has_unfinished({1}));
  }
  SUBCASE("one has no place any more") {
    world.change(bench.members[1], [](Worker& worker) { worker.member = false; });
    world.doom(bench.members[1], Fate::killed);
    CHECK(world.dismissed() == std::set{bench.members[1]});
    CHECK(world.counts().alive == 4);
    CHECK(world.counts().members == 3);
    CHECK(world.survivors_on({0}) == 1);
    CHECK(world.has_unfinished({0}));
    CHECK(world.member_at({1}) == nullptr);
    world.forget(bench.members[1]);
    CHECK(world.find(bench.members[1]) == nullptr);
    CHECK(world.dismissed().empty());
    CHECK(world.on({0}) == std::vector{bench.members[0]});
  }
  CHECK(world.broken_invariant().empty());
}

TEST_CASE("World: ranks are found, and are those of the generation that has begun last") {
  WorldBench bench;
  auto& world = bench.world;
  CHECK(world.member_at({2})->id == bench.members[2]);
  CHECK(world.member_at({4}) == nullptr);
  CHECK(world.ranks_on({1}) == std::vector<Rank>{{2}, {3}});
  CHECK(world.ranks_on({7}).empty());

  world.end();
  CHECK(world.ranks_on({1}).empty());
  world.plan({Generation{2}, {Seat{.rank = {0}, .host = {1}}}, 1});
  CHECK_FALSE(world.begun());
  CHECK(world.member_at({2})->id == bench.members[2]);  // where it was, until the next begins

  for (const auto i : {0, 1, 2}) world.forget(bench.members[static_cast<std::size_t>(i)]);
  world.change(bench.members[3], [](Worker& worker) { worker.seat.rank = {0}; });
  world.begin({bench.members[3]});
  CHECK(world.member_at({0})->id == bench.members[3]);
  CHECK(world.member_at({3}) == nullptr);
  CHECK(world.ranks_on({1}) == std::vector<Rank>{{0}});
  CHECK(world.order(world.seats()[0], Instant{}).value == 5);  // ids are never used again
}

TEST_CASE("World: only who asks for all of them looks at all of them") {
  WorldBench bench;
  for (const auto id : bench.members) bench.become(id, WorkerState::spawned);
  CHECK(bench.world.visited() == 0);
  CHECK(bench.world.on({0}).size() == 2);
  CHECK(bench.world.visited() == 2);
  CHECK(bench.world.all().size() == 4);
  CHECK(bench.world.visited() == 6);
}
