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
