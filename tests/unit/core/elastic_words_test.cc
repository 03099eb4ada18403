// What a user is told while an elastic job waits, fails early and tries again, one sentence each.
#include "tests/unit/core/elastic_bench.h"

using namespace trainrun;
using namespace trainrun::core;
using Phase = JobMachine::Phase;
using Bench = ElasticBench;

namespace {

const Error no_route{Code::unreachable, "gpu1: no route to host", {}};

int times(const std::string& text, const std::string& words) {
  int n = 0;
  for (auto at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_SUITE("core.elastic words") {
  TEST_CASE("a host that fails at the start is told once, when the world begins without it") {
    Bench bench(2, OnFailure::restart_world);
    bench.tell(HostFailed{HostIndex{1}, no_route});
    CHECK_FALSE(bench.has_said("no route"));
    bench.ready(0);
    bench.form();
    CHECK(bench.has_said("gpu1: no route to host; trying again"));
    bench.pass(Deadline::hosts);
    bench.tell(HostFailed{HostIndex{1}, no_route});
    CHECK(times(bench.said, "no route") == 1);
    bench.pass(Deadline::hosts);
    bench.tell(HostFailed{HostIndex{1}, {Code::unreachable, "gpu1: permission denied", {}}});
    CHECK(bench.has_said("permission denied; trying again"));
  }

  TEST_CASE("hosts that all fail at the start are told in the report alone") {
    Bench bench(2, OnFailure::restart_world);
    bench.tell(HostFailed{HostIndex{0}, no_route});
    bench.tell(HostFailed{HostIndex{1}, no_route});
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->host_errors.size() == 2);
    CHECK(bench.said.empty());
  }

  TEST_CASE("while too few hosts are there, what is done about it is told") {
    Bench bench(2, OnFailure::restart_world, [](JobSpec& spec) { spec.elastic.min_np = 4; });
    bench.all_running();
    bench.lose(1);
    bench.drained();
    REQUIRE(bench.phase() == Phase::cooling);
    CHECK(bench.has_said("waiting for hosts: 2 slots of the 4 that the smallest world needs; "));
    CHECK(bench.has_said("gpu1 is tried again in 0.95 s; giving up in 10m00s"));
  }

  TEST_CASE("a generation that never ran is named, since its number is skipped") {
    Bench bench(1, OnFailure::restart_world);
    bench.ready(0);
    bench.tell(PortReserved{*std::exchange(bench.port, std::nullopt)});
    const auto worker = bench.ordered.at(0);
    bench.tell(WorkerNotStarted{worker, ExitStatus::not_started(SpawnStage::exec, ENOENT)});
    CHECK(bench.has_said("generation 1 was not up yet: rank 0 on gpu0 "));
    CHECK(bench.has_said("; restarting all ranks (restart 1 of 10"));
  }

  TEST_CASE("a refused port is tried again at the price of a restart, and the last refusal ends the job") {
    Bench bench(1, OnFailure::restart_world, [](JobSpec& spec) { spec.elastic.limit.count = 1; });
    bench.ready(0);
    const Error refused{Code::try_again,
                        "gpu0: cannot reserve a port for MASTER_PORT: Address already in use",
                        "widen --port-range"};
    bench.tell(PortRefused{*std::exchange(bench.port, std::nullopt), refused});
    CHECK(bench.has_said("MASTER_PORT: Address already in use; trying again (restart 1 of 1"));
    bench.drained();
    REQUIRE(bench.port == Generation{2});
    bench.tell(PortRefused{*std::exchange(bench.port, std::nullopt), refused});
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->kind == Outcome::Kind::port_refused);
    CHECK(bench.outcome->exit_code == 75);
    CHECK(bench.outcome->out_of_restarts);
    REQUIRE(bench.outcome->why);
    CHECK(*bench.outcome->why == Cause{cause::PortRefused{refused}});
  }

  TEST_CASE("the cause of a hang names the rank that does something else, and not one of an earlier look") {
    Bench bench(2, OnFailure::restart_world);
    bench.all_running();
    const OddOne odd{Rank{3}, "sleeps", "is running", {}, {Rank{0}, Rank{1}, Rank{2}}};
    bool earlier = false;
    SUBCASE("of this look") {}
    SUBCASE("of an earlier one") { earlier = true; }
    bench.tell(WorldSilent{seconds(30)});
    for (std::uint32_t rank = 0; rank < 4; ++rank) bench.tell(WorkerInspected{bench.at(rank), false, "S"});
    bench.tell(InspectionDone{HostIndex{1}, odd});
    if (earlier) bench.tell(WorldAlive{}), bench.tell(WorldSilent{seconds(30)});
    for (std::uint32_t i = 0; i < 2; ++i) bench.tell(InspectionDone{HostIndex{i}});
    CHECK(bench.phase() == Phase::draining);
    CHECK(bench.has_said("rank 3 on gpu1 sleeps while each of the 3 others is running") != earlier);
  }

  TEST_CASE("a rank for which the others are known to wait is named, and not the one that seems odd") {
    const OddOne odd{Rank{3}, "sleeps", "is running", {}, {Rank{0}, Rank{1}, Rank{2}}};
    const auto look = [&odd](Bench& bench, std::vector<WorkerId> absent) {
      bench.tell(WorldSilent{seconds(30), std::move(absent)});
      for (std::uint32_t rank = 0; rank < 4; ++rank) bench.tell(WorkerInspected{bench.at(rank), false, "S"});
      bench.tell(InspectionDone{HostIndex{1}, odd});
      bench.tell(InspectionDone{HostIndex{0}});
      CHECK(bench.has_said("for 30.0 s: rank 1 on gpu0 has not come to where the others wait"));
      CHECK_FALSE(bench.has_said("while each of"));
    };
    SUBCASE("to PyTorch's store") {
      Bench bench(2, OnFailure::restart_world);
      bench.all_running();
      look(bench, {bench.at(1)});
    }
    SUBCASE("to our rendezvous") {
      Bench bench(2, OnFailure::restart_world);
      bench.all_running();
      for (const std::uint32_t rank : {0u, 2u, 3u}) bench.tell(MemberJoined{Generation{1}, Rank{rank}});
      look(bench, {});
    }
    SUBCASE("in place it is ended alone") {
      Bench bench(2, OnFailure::in_place);
      bench.all_running(true);
      look(bench, {bench.at(1)});
      for (std::uint32_t rank = 0; rank < 4; ++rank)
        CHECK(bench.signalled[bench.at(rank)].contains(SIGKILL) == (rank == 1));
    }
  }

  TEST_CASE("in place the rank that does something else is ended alone, and the others keep their state") {
    Bench bench(2, OnFailure::in_place);
    bench.all_running(true);
    bench.tell(WorldSilent{seconds(30)});
    for (std::uint32_t rank = 0; rank < 4; ++rank) bench.tell(WorkerInspected{bench.at(rank), false, "S"});
    SUBCASE("one differs") {
      const OddOne odd{Rank{3}, "sleeps", "is running", {}, {Rank{0}, Rank{1}, Rank{2}}};
      bench.tell(InspectionDone{HostIndex{1}, odd});
      bench.tell(InspectionDone{HostIndex{0}});
      CHECK(bench.has_said("while each of the 3 others is running; the others go on"));
      const auto odd_one = bench.at(3);
      for (std::uint32_t rank = 0; rank < 4; ++rank)
        CHECK(bench.signalled[bench.at(rank)].contains(SIGKILL) == (rank == 3));
      bench.end(odd_one, ExitStatus::killed(SIGKILL, false));
      bench.tell(PortReserved{*std::exchange(bench.port, std::nullopt)});
      CHECK(bench.ranks() == 3);
    }
    SUBCASE("none does") {
      for (std::uint32_t i = 0; i < 2; ++i) bench.tell(InspectionDone{HostIndex{i}});
      CHECK(bench.has_said("restarting all ranks"));
    }
  }

  TEST_CASE("members that give their world up without being told pay for it") {
    Bench bench(1, OnFailure::in_place, [](JobSpec& spec) { spec.elastic.limit.count = 1; });
    bench.all_running(true);
    for (std::uint32_t rank : {0u, 1u}) bench.tell(MemberWaits{Generation{1}, bench.at(rank)});
    CHECK(bench.has_said(
        "all ranks gave up on this world; all ranks go on in the next generation (restart 1 of 1"));
    bench.form(true);
    CHECK(bench.generation() == 2);
    for (std::uint32_t rank : {0u, 1u}) bench.tell(MemberWaits{Generation{2}, bench.at(rank)});
    bench.drained();
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->out_of_restarts);
    CHECK(bench.outcome->exit_code == 124);
  }

  TEST_CASE("the end of a job that waited in vain says what it waited for") {
    const auto discovers = [](JobSpec& spec) {
      spec.hosts.hosts.clear();
      spec.elastic.discovery.kind = DiscoveryKind::script;
    };
    Bench bench(1, OnFailure::restart_world, discovers);
    SUBCASE("the script failed") { bench.tell(DiscoveryProblem{"the script './hosts' exited with code 3"}); }
    SUBCASE("it has never ended") {}
    SUBCASE("it lists nobody") { bench.tell(HostsDiscovered{}); }
    SUBCASE("hosts failed, and then the script") {
      bench.tell(HostsDiscovered{{Bench::host(0)}});
      bench.tell(HostFailed{HostIndex{0}, {Code::unreachable, "gpu0: no route to host"}});
      bench.tell(DiscoveryProblem{"the script './hosts' exited with code 3"});
    }
    const bool listed = !bench.machine->hosts().empty();
    const bool failed = bench.machine->hosts().size() == 1;
    bench.pass(Deadline::start);
    bench.pass(Deadline::world);
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->kind == Outcome::Kind::no_hosts);
    REQUIRE(bench.outcome->why);
    CHECK(output::words(*bench.outcome->why).find("host discovery") != std::string::npos);
    CHECK(bench.outcome->host_errors.size() == (failed ? 1 : 0));
    if (listed) CHECK(bench.outcome->host_errors.at(0).second.message == "gpu0: no route to host");
  }

  TEST_CASE("a host that was lost and did not come back is named in the end") {
    Bench bench(1);
    bench.all_running();
    bench.lose(0);
    bench.pass(Deadline::world);
    REQUIRE(bench.outcome);
    REQUIRE(bench.outcome->host_errors.size() == 1);
    CHECK(bench.outcome->host_errors[0].second.message == "gpu0: no answer for 10.0 s");
  }

  TEST_CASE("the line of a restart has the failing rank's last words, short and printable") {
    Bench bench(2);
    bench.all_running();
    SUBCASE("short") {
      bench.tell(WorkerExited{bench.at(1), ExitStatus::exited(1), bench.now, {}, {}, "ValueError: \x1b[1m"});
      CHECK(bench.has_said("rank 1 on gpu0 exited with code 1 (ValueError: "));
      CHECK(bench.said.find('\x1b') == std::string::npos);
    }
    SUBCASE("long") {
      bench.tell(WorkerExited{bench.at(1), ExitStatus::exited(1), bench.now, {}, {}, std::string(5000, 'x')});
      CHECK(bench.has_said("(" + std::string(100, 'x') + "...); restarting all ranks"));
    }
  }

  TEST_CASE("a host that rests says until when, and one that serves all the same does not") {
    Bench bench(2);
    bench.all_running();
    bench.lose(0);
    const auto lost = bench.now;
    const auto view = bench.machine->hosts().at(0);
    REQUIRE(view.used_again);
    CHECK(*view.used_again - lost == seconds(12));
    CHECK(view.note == "rests: no answer for 10.0 s");
    CHECK_FALSE(bench.machine->hosts().at(1).used_again);
    bench.drained();
    bench.form();
    for (const auto& rank : bench.machine->workers()) CHECK(bench.now - rank.since < seconds(1));
  }

  TEST_CASE("many hosts that fail alike are one line, and a good one behind them is found") {
    Bench bench(40, OnFailure::restart_world, [](JobSpec& spec) { spec.programs[0].np = 2; });
    for (int look = 0; look < 200 && bench.phase() == Phase::gathering; ++look) {
      const auto views = bench.machine->hosts();
      for (const auto& view : views) {
        if (view.state != JobMachine::HostState::dialling || bench.phase() != Phase::gathering) continue;
        if (view.index.value == 39)
          bench.ready(39);
        else
          bench.tell(HostFailed{view.index, {Code::unreachable, view.host.name + ": unknown name", {}}});
      }
    }
    CHECK(bench.phase() == Phase::forming);
    CHECK(times(bench.said, "unknown name") == 1);
    CHECK(bench.has_said(" hosts: unknown name (gpu0, "));
  }

  TEST_CASE("the start waits no longer than --elastic-timeout, of which --start-timeout is a part") {
    Bench bench(1, OnFailure::restart_world, [](JobSpec& spec) {
      spec.hosts.hosts.clear();
      spec.elastic.discovery.kind = DiscoveryKind::script;
      spec.elastic.timeout = seconds(5);
      SUBCASE("shorter") { spec.start_timeout = seconds(3); }
      SUBCASE("longer") { spec.start_timeout = seconds(60); }
    });
    const auto began = bench.now;
    bench.pass(Deadline::start);
    bench.pass(Deadline::world);
    REQUIRE(bench.outcome);
    CHECK(bench.now - began < seconds(6));
    CHECK(bench.outcome->kind == Outcome::Kind::no_hosts);
  }
}
