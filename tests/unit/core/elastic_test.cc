// What an elastic job does, one sentence each: failures, and the worlds that follow from them.
#include "tests/unit/core/elastic_bench.h"

using namespace trainrun;
using namespace trainrun::core;
using Phase = JobMachine::Phase;
using Bench = ElasticBench;

TEST_SUITE("core.elastic") {
  TEST_CASE("a killed worker of an unmodified program: all stop, and the same world starts anew at once") {
    Bench bench(3);
    bench.all_running();
    bench.tell(WorkerExited{bench.at(3), ExitStatus::killed(SIGKILL, false), bench.now, {}});
    CHECK(bench.signals(SIGTERM) == 1);
    bench.tell(WorkerFinished{bench.at(3)});
    bench.drained();
    bench.form();
    CHECK(bench.generation() == 2);
    CHECK(bench.ranks() == 6);
    CHECK(bench.world.restarts == 1);
    CHECK(bench.count<StartWorker>() == 12);
    bench.finish_all();
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == 0);
    CHECK(bench.outcome->restarts == 1);
  }

  TEST_CASE("nobody of the next generation starts before every host has cleared up") {
    Bench bench(2);
    bench.all_running();
    bench.end(bench.at(0), ExitStatus::exited(1));
    for (std::uint32_t rank : {1u, 2u, 3u}) bench.end(bench.at(rank), ExitStatus::killed(SIGTERM, false));
    bench.tell(HostSwept{HostIndex{0}, Generation{1}});
    CHECK(bench.phase() == Phase::draining);
    CHECK_FALSE(bench.port);
    bench.tell(HostSwept{HostIndex{1}, Generation{1}});
    CHECK(bench.port == Generation{2});
  }

  TEST_CASE("in place: survivors keep their process, their slot, their order and the lowest ranks") {
    Bench bench(3, OnFailure::in_place, Bench::needs_all);
    bench.all_running(true);
    const auto before = bench.world.workers;
    bench.end(bench.at(0), ExitStatus::killed(SIGKILL, false));
    bench.form(true);
    CHECK(bench.generation() == 2);
    for (std::uint32_t rank = 0; rank < 5; ++rank) CHECK(bench.at(rank) == before[rank + 1]);
    CHECK(bench.seats() == "0.1 1.0 1.1 2.0 2.1 0.0");
    CHECK(bench.count<StartWorker>() == 7);
    CHECK(bench.signals(SIGTERM) == 0);
    CHECK(bench.has_said("state kept by 5 survivors"));
  }

  TEST_CASE("in place: rank 0 is one that has state, not one that was only just started") {
    Bench bench(2, OnFailure::in_place, Bench::needs_all);
    bench.all_running(true);
    bench.end(bench.at(1), ExitStatus::exited(1));
    REQUIRE(bench.port);
    bench.tell(PortReserved{*std::exchange(bench.port, std::nullopt)});
    const auto newcomer = bench.ordered.at(0);
    bench.tell(WorkerStarted{newcomer, 1});
    bench.ordered.clear();
    bench.end(bench.at(0), ExitStatus::exited(1));  // before the world has met
    bench.form(true);
    CHECK(bench.at(0) != newcomer);
    CHECK(bench.ranks() == 4);
  }

  TEST_CASE("in place: one that was ordered when another died is awaited, and its slot is not given twice") {
    Bench bench(2, OnFailure::in_place, Bench::needs_all);
    bench.all_running(true);
    bench.end(bench.at(1), ExitStatus::exited(1));
    bench.tell(PortReserved{*std::exchange(bench.port, std::nullopt)});
    const auto newcomer = bench.ordered.at(0);
    bench.ordered.clear();
    bench.end(bench.at(2), ExitStatus::exited(1));
    CHECK(bench.phase() == Phase::draining);
    bench.tell(WorkerStarted{newcomer, 1});
    bench.form(true);
    CHECK(bench.ranks() == 4);
    CHECK(bench.count<BeginWorld>() == 3);
    CHECK(std::count(bench.world.workers.begin(), bench.world.workers.end(), newcomer) == 1);
  }

  TEST_CASE("in place with nobody left: from the program's own checkpoint, said plainly") {
    Bench bench(1, OnFailure::in_place);
    bench.all_running(true);
    bench.tell(WorkerExited{bench.at(0), ExitStatus::exited(1), bench.now, {}});
    bench.tell(WorkerExited{bench.at(1), ExitStatus::exited(1), bench.now, {}});
    bench.tell(WorkerFinished{bench.at(0)});
    bench.tell(WorkerFinished{bench.at(1)});
    bench.drained();
    bench.form();
    CHECK(bench.has_said("no rank survived"));
    CHECK(bench.has_said("exited with code 1 as well; restarting all ranks (still restart 1)"));
    CHECK(bench.ranks() == 2);
  }

  TEST_CASE("in place: who came anew and never met the others has kept nothing") {
    Bench bench(2, OnFailure::in_place, Bench::needs_all);
    bench.all_running(true);
    bench.end(bench.at(1), ExitStatus::exited(1));
    bench.tell(PortReserved{*std::exchange(bench.port, std::nullopt)});
    const auto newcomer = bench.ordered.at(0);
    bench.tell(WorkerStarted{newcomer, 1});
    bench.ordered.clear();
    for (const auto worker : std::vector<WorkerId>(bench.world.workers))
      if (worker != newcomer) bench.end(worker, ExitStatus::exited(1));
    bench.form(true);
    CHECK(std::count(bench.world.workers.begin(), bench.world.workers.end(), newcomer) == 1);
    CHECK(bench.has_said("no rank survived"));
    CHECK_FALSE(bench.has_said("state kept by"));
  }

  TEST_CASE("which hosts serve and which are spares is said by their order, not by who is quicker") {
    Bench bench(3, OnFailure::restart_world, [](JobSpec& spec) {
      spec.programs[0].np = 4;
      spec.elastic.spares = 2;
    });
    bench.ready(2);
    bench.ready(0);
    CHECK(bench.phase() == Phase::gathering);
    SUBCASE("the slow one comes") { bench.ready(1); }
    SUBCASE("it does not") { bench.pass(Deadline::start); }
    bench.form();
    CHECK(bench.ranks() == 4);
    CHECK(bench.seats() == (bench.machine->hosts()[1].state == JobMachine::HostState::ready
                                ? "0.0 0.1 1.0 1.1"
                                : "0.0 0.1 2.0 2.1"));
  }

  TEST_CASE("an automatic job whose program never meets is restarted as a whole") {
    Bench bench(2, OnFailure::automatic);
    bench.all_running();
    bench.end(bench.at(0), ExitStatus::exited(1));
    CHECK(bench.signals(SIGTERM) == 1);
    bench.drained();
    CHECK(bench.port == Generation{2});
  }

  TEST_CASE("no restart is left: the job ends with the failing rank's code, and says so") {
    Bench bench(2, OnFailure::restart_world, [](JobSpec& spec) { spec.elastic.limit.count = 1; });
    bench.all_running();
    bench.end(bench.at(0), ExitStatus::exited(3));
    bench.drained();
    bench.form();
    bench.end(bench.at(1), ExitStatus::exited(4));
    for (std::uint32_t rank : {0u, 2u, 3u}) bench.end(bench.at(rank), ExitStatus::killed(SIGTERM, false));
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == 4);
    CHECK(bench.outcome->out_of_restarts);
    CHECK_FALSE(bench.outcome->why);
  }

  TEST_CASE("whom the ranks had named is told, if they named another in the same world") {
    for (const bool in_last : {true, false}) {
      Bench bench(2, OnFailure::restart_world, [](JobSpec& spec) { spec.elastic.limit.count = 1; });
      bench.all_running();
      if (!in_last) bench.tell(WorldBroken{Generation{1}, "rank 2 did not take part", {Rank{2}}});
      bench.end(bench.at(0), ExitStatus::exited(3));
      bench.drained();
      bench.form();
      if (in_last) bench.tell(WorldBroken{Generation{2}, "rank 2 did not take part", {Rank{2}}});
      bench.end(bench.at(1), ExitStatus::exited(4));
      for (std::uint32_t rank : {0u, 2u, 3u}) bench.end(bench.at(rank), ExitStatus::killed(SIGTERM, false));
      bench.all_stopped();
      REQUIRE(bench.outcome);
      CHECK(bench.outcome->why.has_value() == in_last);
      if (in_last)
        CHECK(std::get<cause::WorldBroken>(*bench.outcome->why).reason == "rank 2 did not take part");
    }
  }

  TEST_CASE("that the ranks disagreed is told, if they had when the first failed") {
    for (const bool before : {true, false}) {
      Bench bench(2, OnFailure::restart_world, [](JobSpec& spec) { spec.elastic.limit.count = 0; });
      bench.all_running();
      const WorldBroken disagree{Generation{1}, "rank 0 called barrier, rank 1 called broadcast", {}};
      if (before) bench.tell(disagree);
      bench.now += seconds(1);
      bench.end(bench.at(1), ExitStatus::exited(4));
      if (!before) bench.tell(disagree);
      for (std::uint32_t rank : {0u, 2u, 3u}) bench.end(bench.at(rank), ExitStatus::killed(SIGTERM, false));
      bench.all_stopped();
      REQUIRE(bench.outcome);
      CHECK(bench.outcome->kind == Outcome::Kind::worker_failed);
      CHECK(bench.outcome->why.has_value() == before);
    }
  }

  TEST_CASE("a single host recovers, although it is to blame") {
    Bench bench(1);
    bench.all_running();
    for (int i = 0; i < 4; ++i) {
      bench.end(bench.at(0), ExitStatus::exited(1));
      bench.drained();
      if (bench.armed.contains(Deadline::backoff)) bench.pass(Deadline::backoff);
      bench.form();
    }
    CHECK(bench.generation() == 5);
    CHECK_FALSE(bench.has_said("gpu0 rests"));  // it must serve all the same
  }

  TEST_CASE("all hosts rest: one that cannot be reached keeps none of the others waiting") {
    Bench bench(2);
    bench.all_running();
    bench.lose(0);
    bench.lose(1);
    bench.drained();
    if (bench.armed.contains(Deadline::backoff)) bench.pass(Deadline::backoff);
    const auto dials = [&](std::uint32_t index) {
      return bench.count<DialHost>([index](const auto& dial) { return dial.host.value == index; });
    };
    for (int tries = 0; dials(1) == 1 && tries < 3; ++tries) {
      bench.pass(Deadline::hosts);
      if (dials(0) > 1) bench.tell(HostFailed{HostIndex{0}, {Code::unreachable, "gpu0: no route to host"}});
    }
    CHECK(dials(1) == 2);
    bench.ready(1);
    bench.form();
    CHECK(bench.seats() == "1.0 1.1");
  }

  TEST_CASE("the second restart waits a second, the third two") {
    Bench bench(2);
    bench.all_running();
    std::uint32_t rank = 0;  // of the other host each time: none of them is to rest
    for (const auto wait : {seconds(0), seconds(1), seconds(2)}) {
      bench.end(bench.at(std::exchange(rank, 2 - rank)), ExitStatus::exited(1));
      bench.drained();
      CHECK(bench.armed.contains(Deadline::backoff) == (wait > seconds(0)));
      if (wait > seconds(0)) {
        CHECK(bench.armed[Deadline::backoff] - bench.now == wait);
        bench.pass(Deadline::backoff);
      }
      bench.form();
    }
  }

  TEST_CASE("a spare host takes the failed host's slots, and the others stay put") {
    Bench bench(3, OnFailure::in_place, [](JobSpec& spec) {
      spec.programs[0].np = 4;
      spec.elastic.min_np = 4;
      spec.elastic.spares = 2;
    });
    bench.all_running(true);
    CHECK(bench.seats() == "0.0 0.1 1.0 1.1");
    bench.lose(1);
    bench.form(true);
    CHECK(bench.seats() == "0.0 0.1 2.0 2.1");
    CHECK(bench.has_said("gpu1 lost (no answer for 10.0 s)"));
  }

  TEST_CASE("a host that loses power while forming is left out of the world that follows") {
    Bench bench(3, OnFailure::restart_world, [](JobSpec& spec) { spec.elastic.settle = seconds(2); });
    for (std::uint32_t i = 0; i < 3; ++i) bench.ready(i);
    SUBCASE("before anybody was ordered") { bench.lose(0); }
    SUBCASE("while workers start") {
      bench.tell(PortReserved{*std::exchange(bench.port, std::nullopt)});
      for (const auto worker : std::exchange(bench.ordered, {})) bench.tell(WorkerStarted{worker, 1});
      bench.lose(0);
    }
    bench.drained();
    bench.form();
    CHECK(bench.ranks() == 4);
    CHECK(bench.seats() == "1.0 1.1 2.0 2.1");
  }

  TEST_CASE("a survivor that dies while the next world cools down is not planned for") {
    Bench bench(2, OnFailure::in_place, Bench::needs_all);
    bench.all_running(true);
    bench.end(bench.at(0), ExitStatus::exited(1));
    bench.form(true);
    bench.end(bench.at(0), ExitStatus::exited(1));
    REQUIRE(bench.phase() == Phase::cooling);
    const auto gone = bench.at(1);
    bench.end(gone, ExitStatus::exited(1));
    bench.pass(Deadline::backoff);
    bench.form(true);
    CHECK(bench.ranks() == 4);
    CHECK(std::count(bench.world.workers.begin(), bench.world.workers.end(), gone) == 0);
  }

  TEST_CASE("a survivor that finishes while the port is reserved gives its place up, not its rank") {
    Bench bench(2, OnFailure::in_place);
    bench.all_running(true);
    bench.end(bench.at(3), ExitStatus::exited(1));
    const auto second = bench.at(1);
    bench.end(bench.at(0), ExitStatus::exited(0));
    for (const std::uint32_t rank : {1u, 2u}) {
      CHECK(bench.phase() == Phase::cooling);  // the others may be about to finish
      bench.tell(MemberWaits{Generation{1}, bench.at(rank)});
    }
    bench.form(true);
    CHECK(bench.at(0) == second);
    CHECK(bench.ranks() == 2);
    bench.finish_all();
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == 0);
  }

  TEST_CASE("in place: when the last survivors finish, the failure that preceded is the job's outcome") {
    Bench bench(1, OnFailure::in_place);
    bench.all_running(true);
    bench.end(bench.at(0), ExitStatus::exited(5));
    bench.end(bench.at(1), ExitStatus::exited(0));
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == 5);
  }

  TEST_CASE("^C is obeyed while the next generation cools or forms, with survivors that live") {
    Bench bench(2, OnFailure::in_place, Bench::needs_all);
    bench.all_running(true);
    bench.end(bench.at(0), ExitStatus::exited(1));
    bench.form(true);
    bench.end(bench.at(0), ExitStatus::exited(1));
    SUBCASE("cooling") { REQUIRE(bench.phase() == Phase::cooling); }
    SUBCASE("forming") {
      bench.pass(Deadline::backoff);
      REQUIRE(bench.phase() == Phase::forming);
    }
    bench.tell(UserSignal{SIGINT});
    CHECK(bench.signals(SIGTERM) == 1);
    bench.drained();
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == 130);
  }

  TEST_CASE("in place: the last survivors finish, but others were lost before: that is no success") {
    Bench bench(2, OnFailure::in_place);
    bench.all_running(true);
    bench.lose(1);
    bench.end(bench.at(0), ExitStatus::exited(0));
    bench.end(bench.at(1), ExitStatus::exited(0));
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->kind == Outcome::Kind::host_lost);
    CHECK(bench.outcome->exit_code == 69);
  }

  TEST_CASE("too few hosts: the job waits for --elastic-timeout, and then says so") {
    Bench bench(1);
    bench.all_running();
    bench.tell(HostLost{HostIndex{0}, "gone"});
    bench.pass(Deadline::hosts);
    bench.tell(HostFailed{HostIndex{0}, {Code::unreachable, "gpu0: no route to host"}});
    bench.pass(Deadline::world);
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->kind == Outcome::Kind::no_hosts);
    CHECK(bench.outcome->exit_code == 69);
  }
}
