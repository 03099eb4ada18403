// Slots and hosts that come and go while a job runs: what it does, and what it says when it does nothing.
#include <csignal>

#include "tests/unit/core/elastic_bench.h"

using namespace trainrun;
using namespace trainrun::core;
using Phase = JobMachine::Phase;
using Bench = ElasticBench;

namespace {

void discovers(JobSpec& spec) {
  spec.elastic.discovery.kind = DiscoveryKind::script;
  spec.elastic.max_np = 8;
}

}  // namespace

TEST_SUITE("core.elastic slots") {
  TEST_CASE("fewer slots are a change like another: the host's last ranks leave, the others stay") {
    Bench bench(2, OnFailure::in_place, discovers);
    bench.all_running(true);
    const auto stays = bench.world.workers;
    bench.tell(HostsDiscovered{{Bench::host(0, 1), Bench::host(1)}});
    bench.pass(Deadline::settle);
    CHECK(bench.count<Announce>([&](const auto& it) { return it.leaving == std::vector{stays[1]}; }) == 1);
    for (std::uint32_t rank = 0; rank < 4; ++rank) bench.tell(MemberWaits{Generation{1}, bench.at(rank)});
    bench.form(true);
    CHECK(bench.world.workers == std::vector{stays[0], stays[2], stays[3]});
    CHECK(bench.has_said("generation 2: 3 ranks on 2 hosts; gpu0 has 1 slot now"));
    CHECK(bench.machine->restarts() == 0);
  }

  TEST_CASE("a rank that has no slot any more takes none away when it is stopped") {
    Bench bench(2, OnFailure::in_place, discovers);
    bench.all_running(true);
    const auto stays = bench.world.workers;
    bench.tell(HostsDiscovered{{Bench::host(0, 1), Bench::host(1)}});
    bench.tell(StopWorker{Rank{1}});
    bench.end(stays[1], ExitStatus::killed(SIGKILL, false));
    for (const std::uint32_t rank : {0u, 2u, 3u})
      bench.tell(MemberWaits{bench.world.placement.generation, bench.at(rank)});
    bench.form(true);
    CHECK(bench.world.workers == std::vector{stays[0], stays[2], stays[3]});
    CHECK_FALSE(bench.has_said("no rank survived"));
  }

  TEST_CASE("slots that come and go are told by host, and counted as what they are") {
    Bench bench(2, OnFailure::restart_world, discovers);
    bench.all_running();
    bench.tell(HostsDiscovered{{Bench::host(0, 3), Bench::host(1)}});
    bench.pass(Deadline::settle);
    bench.drained();
    bench.form();
    CHECK(bench.has_said("generation 2: 5 ranks on 2 hosts; gpu0 has 3 slots now"));
    bench.tell(HostsDiscovered{{Bench::host(0, 1), Bench::host(1)}});
    bench.pass(Deadline::settle);
    bench.drained();
    bench.form();
    CHECK(bench.ranks() == 3);
    bench.finish_all();
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->changes == std::vector<std::pair<CauseKind, int>>{{CauseKind::slots_changed, 2}});
  }

  TEST_CASE("what would leave too little for the smallest world is kept, and that is said") {
    Bench bench(1, OnFailure::restart_world, discovers);
    bench.all_running();
    SUBCASE("a host") {
      bench.tell(HostsDiscovered{});
      CHECK(bench.has_said("hosts no longer listed: gpu0; kept, since the others cannot hold --min-np 2"));
    }
    SUBCASE("slots") {
      bench.tell(HostsDiscovered{{Bench::host(0, 1)}});
      CHECK(bench.has_said("gpu0 has 1 slot now; kept, since the others cannot hold --min-np 2"));
    }
    CHECK_FALSE(bench.armed.contains(Deadline::settle));
    CHECK(bench.phase() == Phase::running);
  }

  TEST_CASE("whether the smallest world can be held without a host or a slot is known") {
    Bench bench(2, OnFailure::restart_world, [](JobSpec& spec) { spec.elastic.min_np = 3; });
    bench.all_running();
    CHECK_FALSE(bench.machine->holds_without(HostIndex{0}));
    CHECK(bench.machine->holds_with_a_slot_less());
    bench.tell(StopWorker{Rank{3}});
    CHECK_FALSE(bench.machine->holds_with_a_slot_less());
    bench.tell(AddHosts{{Bench::host(2)}});
    CHECK(bench.machine->holds_without(HostIndex{1}));
  }

  TEST_CASE("case and a final dot make no other host of one") {
    Bench bench(2);
    bench.all_running();
    auto other = Bench::host(1);
    other.name = "GPU1.";
    bench.tell(HostsDiscovered{{Bench::host(0), other}});
    CHECK(bench.count<AddHost>() == 0);
    bench.tell(RemoveHost{"Gpu1"});
    CHECK(bench.machine->hosts()[1].leaves);
  }

  TEST_CASE("the world may grow as soon as one that was dismissed has left its slot") {
    Bench bench(2, OnFailure::in_place, discovers);
    bench.all_running(true);
    bench.tell(HostsDiscovered{{Bench::host(0), Bench::host(1, 1)}});
    bench.pass(Deadline::settle);
    const auto dismissed = bench.at(3);
    for (std::uint32_t rank = 0; rank < 4; ++rank) bench.tell(MemberWaits{Generation{1}, bench.at(rank)});
    bench.form(true);
    REQUIRE(bench.ranks() == 3);
    bench.tell(HostsDiscovered{{Bench::host(0), Bench::host(1)}});
    CHECK(bench.count<PlanNewcomers>() == 0);
    bench.tell(WorkerExited{dismissed, ExitStatus::exited(0), bench.now, {}});
    CHECK(bench.count<PlanNewcomers>() == 1);
  }
}
