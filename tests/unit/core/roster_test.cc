#include "launcher/core/roster.h"

#include <doctest/doctest.h>

using namespace trainrun;
using namespace trainrun::core;

namespace {

constexpr Instant start{seconds(1000)};

// A job that may use 4 to 6 slots, on hosts of two.
JobSpec job_on(int hosts) {
  JobSpec job;
  for (int i = 0; i < hosts; ++i)
    job.hosts.hosts.push_back({.name = "gpu" + std::to_string(i), .slots = 2, .slots_given = true});
  job.programs = {{{"./train"}, 6, "/w", {}}};
  job.elastic.on_failure = OnFailure::restart_world;
  job.elastic.min_np = 4;
  return job;
}

void all_ready(Roster& roster) {
  for (std::uint32_t i = 0; i < roster.size(); ++i) roster.become({i}, HostState::ready);
}

}  // namespace

TEST_CASE("Roster: no more hosts are dialled than the largest world needs, in the order of the list") {
  const auto job = job_on(5);
  Roster roster(job, true);
  CHECK(roster.to_dial(start) == std::vector<HostIndex>{{0}, {1}, {2}});
  for (const std::uint32_t i : {0u, 1u, 2u}) roster.become({i}, HostState::dialling);
  CHECK(roster.to_dial(start).empty());
  CHECK(roster.usable_slots(HostState::dialling, start, {}) == 6);

  // One that failed comes back after its pause, and meanwhile another serves.
  roster.become({1}, HostState::gone);
  roster.could_not_be_reached({1}, start);
  CHECK(roster.to_dial(start) == std::vector<HostIndex>{{3}, {4}});
  CHECK(roster.next_change(start) == start + seconds(1));
  CHECK(roster.to_dial(start + seconds(1)) == std::vector<HostIndex>{{3}, {4}});
  for (const std::uint32_t i : {3u, 4u}) roster.become({i}, HostState::ready);
  CHECK(roster.to_dial(start + seconds(1)).empty());
  CHECK(roster.broken_invariant().empty());
}

TEST_CASE("Roster: a host that rests serves where the smallest world needs it") {
  const auto job = job_on(3);
  Roster roster(job, true);
  all_ready(roster);
  roster.host_failed({0}, start);
  CHECK_FALSE(roster.usable({0}, start, roster.forgiven(start)));
  CHECK(roster.usable_slots(HostState::ready, start, roster.forgiven(start)) == 4);
  roster.host_failed({1}, start + seconds(1));
  // The one whose rest is over first.
  CHECK(roster.forgiven(start + seconds(1)) == std::set<HostIndex>{{0}});
  CHECK(roster.usable_slots(HostState::ready, start + seconds(1), roster.forgiven(start + seconds(1))) == 4);
  CHECK(roster.slots_without(std::nullopt, start) == 6);
  CHECK(roster.slots_without(HostIndex{2}, start) == 4);
  roster.forgive({1});
  CHECK(roster.forgiven(start).empty());
  CHECK(roster.broken_invariant().empty());
}

TEST_CASE("Roster: one that left by its own word is not asked before the longest rest is over") {
  const auto job = job_on(2);
  Roster roster(job, true);
  all_ready(roster);
  roster.change({1}, [](HostEntry& it) { it.leaving = true; });
  CHECK(roster.unwanted() == std::set<HostIndex>{{1}});
  roster.left({1}, start);
  CHECK(roster.unwanted().empty());
  CHECK_FALSE(roster.usable({1}, start, {}));
  CHECK(roster.next_change(start) == start + job.elastic.cooldown_max);
  CHECK(roster.usable({1}, start + job.elastic.cooldown_max, {}));
}

TEST_CASE("Roster: the list changes, and hosts stay known") {
  const auto job = job_on(2);
  Roster roster(job, true);
  all_ready(roster);
  CHECK(roster.find_or_add(job.hosts.hosts[1]) == std::pair(HostIndex{1}, false));
  const auto [added, is_new] = roster.find_or_add({.name = "gpu7", .slots = 4});
  CHECK(is_new);
  CHECK(added == HostIndex{2});
  CHECK_FALSE(roster.at(added).listed);
  roster.list(std::vector<HostIndex>{added, {0}});
  CHECK(roster.at(added).listed);
  CHECK(roster.unwanted() == std::set<HostIndex>{{1}});
  CHECK(roster.counts().listed == 2);
  CHECK(roster.slots_without(std::nullopt, start) == 6);
  CHECK(roster.count(HostState::ready) == 2);

  roster.change({0}, [](HostEntry& it) { it.stopped_slots = 1; });
  CHECK(roster.slots_on({0}) == 1);
  CHECK(roster.shrunk() == std::set<HostIndex>{{0}});
  roster.fits();
  CHECK(roster.shrunk().empty());
  CHECK(roster.slots_without(std::nullopt, start) == 5);
  CHECK(roster.broken_invariant().empty());
}

TEST_CASE("Roster: hosts without a history are not looked at one by one") {
  const auto job = job_on(100);
  Roster roster(job, true);
  all_ready(roster);
  const auto before = roster.visited();
  CHECK(roster.forgiven(start).empty());
  CHECK(roster.to_dial(start).empty());
  CHECK_FALSE(roster.next_change(start));
  CHECK(roster.usable_slots(HostState::ready, start, {}) == 200);
  CHECK(roster.visited() == before);
  roster.host_failed({50}, start);
  CHECK(roster.next_change(start));
  CHECK(roster.visited() == before + 1);
}

TEST_CASE("Roster: who may be used, and who counts for what the job could hold") {
  const auto job = job_on(3);
  Roster roster(job, true);
  all_ready(roster);
  const auto used = [&roster](HostIndex index) { return roster.usable(index, start, {}); };
  const auto slots = [&roster] { return roster.usable_slots(HostState::ready, start, {}); };
  const auto without = [&roster](std::optional<HostIndex> host) { return roster.slots_without(host, start); };
  CHECK(slots() == 6);
  CHECK(without(std::nullopt) == 6);

  SUBCASE("one that leaves") {
    roster.change({1}, [](HostEntry& it) { it.leaving = true; });
    CHECK_FALSE(used({1}));
    CHECK(slots() == 4);
    CHECK(without(std::nullopt) == 4);
    CHECK(roster.forgiven(start).empty());
  }
  SUBCASE("one whose cores do not suffice") {
    roster.change({1}, [](HostEntry& it) { it.refused = true; });
    CHECK_FALSE(used({1}));
    CHECK(slots() == 4);
    CHECK(without(std::nullopt) == 4);
  }
  SUBCASE("one that is away, until it may be back") {
    roster.change({1}, [](HostEntry& it) { it.away_until = start + seconds(9); });
    CHECK_FALSE(used({1}));
    CHECK(without(std::nullopt) == 4);
    CHECK(roster.usable({1}, start + seconds(9), {}));
    CHECK(roster.slots_without(std::nullopt, start + seconds(9)) == 6);
  }
  SUBCASE("one that rests counts, as it may be forgiven") {
    roster.worker_failed({1}, start);
    CHECK(used({1}));
    for (int i = 0; i < 2; ++i) roster.worker_failed({1}, start);
    CHECK_FALSE(used({1}));
    CHECK(roster.usable({1}, start, {{1}}));
    CHECK(slots() == 4);
    CHECK(roster.usable_slots(HostState::ready, start, {{1}}) == 6);
    CHECK(without(std::nullopt) == 6);
    CHECK(without(HostIndex{1}) == 4);
    CHECK(without(HostIndex{0}) == 4);
  }
  SUBCASE("one that cannot be reached counts while it is there alone") {
    roster.could_not_be_reached({1}, start);
    CHECK(used({1}));
    CHECK(without(std::nullopt) == 6);
    roster.become({1}, HostState::gone);
    CHECK(without(std::nullopt) == 4);
    CHECK(slots() == 4);
  }
  SUBCASE("one that is not listed") {
    roster.list(std::vector<HostIndex>{{0}, {2}});
    CHECK_FALSE(used({1}));
    CHECK(slots() == 4);
    CHECK(without(std::nullopt) == 4);
    CHECK_FALSE(roster.next_change(start));
  }
  CHECK(roster.broken_invariant().empty());
}

TEST_CASE("Roster: of those that rest as few are forgiven as the smallest world needs") {
  const auto job = job_on(4);  // the smallest world has 4 ranks
  Roster roster(job, true);
  all_ready(roster);
  for (const std::uint32_t i : {2u, 1u, 0u}) roster.host_failed({i}, start - seconds(i));
  // Host 3 holds 2; the next rests end in the order 2, 1, 0.
  CHECK(roster.forgiven(start) == std::set<HostIndex>{{2}});
  SUBCASE("one that cannot be reached is forgiven, and holds nothing") {
    roster.could_not_be_reached({2}, start);
    CHECK(roster.forgiven(start) == std::set<HostIndex>{{2}});
    roster.become({2}, HostState::gone);
    CHECK(roster.forgiven(start) == std::set<HostIndex>{{2}, {1}});
  }
  SUBCASE("one that does not rest holds its slots though it has failed, when it is there") {
    roster.could_not_be_reached({3}, start);
    CHECK(roster.forgiven(start) == std::set<HostIndex>{{2}});
    roster.become({3}, HostState::gone);
    CHECK(roster.forgiven(start) == std::set<HostIndex>{{2}, {1}});
  }
  SUBCASE("one that leaves, or is away or refused, is not forgiven") {
    roster.change({2}, [](HostEntry& it) { it.leaving = true; });
    CHECK(roster.forgiven(start) == std::set<HostIndex>{{1}});
    roster.change({1}, [](HostEntry& it) { it.refused = true; });
    CHECK(roster.forgiven(start) == std::set<HostIndex>{{0}});
    roster.change({0}, [](HostEntry& it) { it.away_until = start + seconds(1); });
    CHECK(roster.forgiven(start).empty());
    CHECK(roster.forgiven(start + seconds(1)) == std::set<HostIndex>{{0}});
  }
  CHECK(roster.broken_invariant().empty());
}

TEST_CASE("Roster: the smallest world is that of -np when no other is given") {
  auto job = job_on(3);
  job.elastic.min_np = 0;
  Roster roster(job, true);
  all_ready(roster);
  roster.host_failed({0}, start);
  CHECK(roster.forgiven(start) == std::set<HostIndex>{{0}});
}

TEST_CASE("Roster: who is dialled, and when") {
  auto job = job_on(6);
  job.elastic.max_np = 4;
  const auto hosts = [](std::initializer_list<std::uint32_t> some) {
    std::vector<HostIndex> out;
    for (const auto one : some) out.push_back({one});
    return out;
  };
  SUBCASE("spares are dialled as well") {
    job.elastic.spares = 1;
    Roster roster(job, true);
    CHECK(roster.to_dial(start) == hosts({0, 1, 2}));
  }
  SUBCASE("one without slots is not") {
    Roster roster(job, true);
    roster.change({0}, [](HostEntry& it) { it.stopped_slots = 2; });
    CHECK(roster.to_dial(start) == hosts({1, 2}));
  }
  SUBCASE("for each that failed one more is tried, as long as too few are there") {
    Roster roster(job, true);
    roster.become({0}, HostState::ready);
    roster.could_not_be_reached({1}, start);
    roster.could_not_be_reached({2}, start);
    CHECK(roster.to_dial(start) == hosts({3, 4}));
    roster.become({3}, HostState::ready);
    CHECK(roster.to_dial(start).empty());
  }
  SUBCASE("those that failed come last, and not before their pause is over") {
    Roster roster(job, true);
    for (const std::uint32_t i : {0u, 1u, 2u, 3u, 4u}) roster.could_not_be_reached({i}, start);
    CHECK(roster.to_dial(start) == hosts({5}));
    CHECK(roster.to_dial(start + seconds(1)) == hosts({5, 0, 1, 2, 3}));
  }
  SUBCASE("the pause doubles up to half a minute") {
    Roster roster(job, true);
    auto now = start;
    for (const auto pause : {1, 2, 4, 8, 16, 30, 30}) {
      roster.could_not_be_reached({0}, now);
      CHECK(roster.next_change(now) == now + seconds(pause));
      now += seconds(pause);
      CHECK_FALSE(roster.next_change(now));
    }
    roster.become({0}, HostState::ready);
    roster.could_not_be_reached({0}, now);
    CHECK_FALSE(roster.next_change(now));  // it is there
  }
  SUBCASE("a rest that ends wakes the job, that of one that leaves does not") {
    Roster roster(job, true);
    roster.host_failed({0}, start);
    CHECK(roster.next_change(start) == start + job.elastic.cooldown_min);
    roster.change({0}, [](HostEntry& it) { it.leaving = true; });
    CHECK_FALSE(roster.next_change(start));
  }
}

TEST_CASE("Roster: one that the user removed may come back as soon as he wants it") {
  const auto job = job_on(2);
  Roster roster(job, true);
  all_ready(roster);
  roster.change({1}, [](HostEntry& it) { it.leaving = it.removed = it.kept = true; });
  roster.left({1}, start);
  CHECK(roster.at({1}).leaving);
  CHECK_FALSE(roster.at({1}).kept);
  CHECK(roster.at({1}).away_until == Instant{});
  roster.left({0}, start);  // lost
  CHECK(roster.at({0}).away_until == Instant{});
  CHECK(roster.count(HostState::gone) == 2);
}
