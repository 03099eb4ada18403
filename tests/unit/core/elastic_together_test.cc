// Failures that come together: they cost one restart, the first of them is the cause, and each is told.
#include "tests/unit/core/elastic_bench.h"
#include "tests/unit/core/job_bench.h"

using namespace trainrun;
using namespace trainrun::core;
using Phase = JobMachine::Phase;
using Bench = ElasticBench;

namespace {

void one_restart(JobSpec& spec) { spec.elastic.limit.count = 1; }

}  // namespace

TEST_SUITE("core.elastic together") {
  TEST_CASE("in place: three ranks that are killed together cost one restart, and the survivor goes on") {
    Bench bench(2, OnFailure::in_place, one_restart);
    bench.all_running(true);
    const auto before = bench.world.workers;
    bench.end(before[2], ExitStatus::killed(SIGKILL, false));
    bench.tell(PortReserved{*std::exchange(bench.port, std::nullopt)});  // generation 2 is being started
    bench.end(before[1], ExitStatus::killed(SIGKILL, false));
    bench.end(before[0], ExitStatus::killed(SIGKILL, false));
    for (const auto worker : std::exchange(bench.ordered, {})) bench.tell(WorkerStarted{worker, 1});
    bench.form(true);
    CHECK_FALSE(bench.outcome);
    CHECK(bench.machine->restarts() == 1);
    CHECK(bench.at(0) == before[3]);
    CHECK(bench.has_said("as well; the others go on in the next generation (still restart 1)"));
    CHECK(bench.has_said("; state kept by 1 survivor"));
  }

  TEST_CASE("in place: once the next world has come up, a failure costs the next restart") {
    Bench bench(2, OnFailure::in_place, one_restart);
    bench.all_running(true);
    const auto survivor = bench.at(1);
    bench.end(bench.at(0), ExitStatus::exited(1));
    bench.form(true);
    bench.end(survivor, ExitStatus::exited(7));
    bench.drained();
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->out_of_restarts);
    CHECK(bench.outcome->exit_code == 7);
  }

  TEST_CASE("in place: a newcomer that dies each time pays each time, however often the world is formed") {
    Bench bench(2, OnFailure::in_place, [](JobSpec& spec) {
      spec.elastic.limit.count = 3;
      spec.elastic.min_np = 4;  // its host cannot be done without
    });
    bench.all_running(true);
    bench.end(bench.at(3), ExitStatus::exited(1));
    for (int paid = 2; paid <= 3; ++paid) {
      bench.tell(PortReserved{*std::exchange(bench.port, std::nullopt)});
      const auto newcomer = bench.ordered.at(0);
      bench.ordered.clear();
      bench.tell(WorkerStarted{newcomer, 1});
      bench.end(newcomer, ExitStatus::exited(1));
      CHECK(bench.machine->restarts() == paid);
      bench.pass(Deadline::backoff);
    }
    bench.tell(PortReserved{*std::exchange(bench.port, std::nullopt)});
    const auto newcomer = bench.ordered.at(0);
    bench.tell(WorkerStarted{newcomer, 1});
    bench.end(newcomer, ExitStatus::exited(9));
    bench.drained();
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == 9);
  }

  TEST_CASE(
      "in place: the last failure is a victim's, and the one before it, which cost nothing, is the cause") {
    Bench bench(2, OnFailure::in_place, [](JobSpec& spec) {
      one_restart(spec);
      spec.elastic.min_np = 4;
    });
    bench.all_running(true);
    const auto before = bench.world.workers;
    bench.end(before[3], ExitStatus::exited(1));
    bench.tell(PortReserved{*std::exchange(bench.port, std::nullopt)});
    const auto newcomer = bench.ordered.at(0);
    bench.tell(WorkerStarted{newcomer, 1});
    bench.end(before[1], ExitStatus::killed(SIGKILL, false));  // in the restart that is paid
    bench.end(newcomer, ExitStatus::exited(1), true);          // came later: there is no restart left for it
    bench.pass(Deadline::notice);
    bench.end(before[0], ExitStatus::exited(134));  // of our SIGTERM
    bench.drained();
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.machine->restarts() == 1);
    REQUIRE(bench.outcome->cause);
    CHECK(bench.outcome->cause->worker == before[1]);
    CHECK(bench.outcome->exit_code == 128 + SIGKILL);
  }

  TEST_CASE("two hosts that lose power together cost one restart, whenever the second is noticed") {
    Bench bench(3, OnFailure::restart_world, one_restart);
    bench.all_running();
    bench.lose(1);
    SUBCASE("while the first world ends") { bench.lose(2); }
    SUBCASE("while the next one waits for its port") {
      bench.drained();
      REQUIRE(bench.phase() == Phase::forming);
      bench.lose(2);
    }
    SUBCASE("while its ranks are started") {
      bench.drained();
      bench.tell(PortReserved{*std::exchange(bench.port, std::nullopt)});
      bench.lose(2);
    }
    bench.drained();
    if (bench.phase() == Phase::cooling && bench.armed.contains(Deadline::settle))
      bench.pass(Deadline::settle);
    bench.ordered.clear();
    bench.drained();
    CHECK(bench.has_said("gpu1 lost (no answer for 10.0 s); restarting all ranks (restart 1 of 1"));
    CHECK(bench.has_said("gpu2 lost"));
    CHECK(bench.has_said("as well"));
    CHECK(bench.machine->restarts() == 1);
    CHECK_FALSE(bench.outcome);
    CHECK_FALSE(bench.has_said("restart 2"));
  }

  TEST_CASE("a host that comes back and is lost again before the world stands is paid for") {
    Bench bench(2, OnFailure::restart_world, one_restart);
    bench.all_running();
    bench.end(bench.at(0), ExitStatus::exited(1));
    bench.drained();
    bench.lose(0);
    bench.drained();
    while (bench.machine->hosts()[0].state != JobMachine::HostState::dialling) bench.pass(Deadline::hosts);
    bench.ready(0);
    bench.lose(1);
    bench.drained();
    REQUIRE(bench.phase() == Phase::forming);
    CHECK(bench.machine->restarts() == 1);
    bench.lose(0);
    bench.drained();
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->out_of_restarts);
  }

  TEST_CASE("each of the hosts that are lost together is told, and counted in the end") {
    Bench bench(3, OnFailure::restart_world);
    bench.all_running();
    for (const auto index : {2u, 0u, 1u}) bench.lose(index);
    for (const auto* words :
         {"gpu2 lost (no answer for 10.0 s); restarting all ranks",
          "gpu0 lost as well (no answer for 10.0 s)", "gpu1 lost as well (no answer for 10.0 s)"})
      CHECK(bench.has_said(words));
    bench.tell(UserSignal{SIGTERM});
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->causes == std::vector<std::pair<CauseKind, int>>{{CauseKind::host_lost, 3}});
    CHECK(bench.outcome->restarts == 1);
  }

  TEST_CASE("a job that is not elastic names each host that was lost") {
    JobBench bench(3);
    bench.all_running();
    for (const auto index : {2u, 0u, 1u}) bench.tell(HostLost{HostIndex{index}, "no answer for 10.0 s"});
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->host == HostIndex{2});
    CHECK(bench.outcome->also_lost == std::vector{HostIndex{0}, HostIndex{1}});
  }
}
