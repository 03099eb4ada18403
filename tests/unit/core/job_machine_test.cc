#include "tests/unit/core/job_bench.h"

#include <random>

using namespace trainrun;
using namespace trainrun::core;
using Phase = JobMachine::Phase;
using Bench = JobBench;

TEST_SUITE("core.job_machine") {
  TEST_CASE("no worker starts before every host is ready and the port is reserved") {
    Bench bench(2);
    bench.tell(HostReady{HostIndex{0}});
    CHECK(bench.count<ReservePort>() == 0);
    bench.tell(HostReady{HostIndex{1}});
    CHECK(bench.count<ReservePort>() == 1);
    CHECK(bench.count<StartWorker>() == 0);
    bench.tell(PortReserved{Generation{1}});
    CHECK(bench.count<StartWorker>() == 4);
  }

  TEST_CASE("a job whose ranks all exit with 0 succeeds, and agents are told to go") {
    Bench bench(2);
    bench.all_running();
    for (std::uint32_t id = 1; id <= 4; ++id) bench.end(id, ExitStatus::exited(0));
    CHECK(bench.count<StopHost>() == 2);
    CHECK_FALSE(bench.outcome);
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->kind == Outcome::Kind::success);
    CHECK(bench.outcome->exit_code == 0);
    CHECK(bench.signals(SIGTERM) == 0);
  }

  TEST_CASE("every host that failed is in one report, and nothing was started") {
    Bench bench(3);
    bench.tell(HostFailed{HostIndex{2}, {Code::host_key, "gpu2: unknown host key"}});
    bench.tell(HostReady{HostIndex{1}});
    CHECK_FALSE(bench.outcome);
    bench.tell(HostFailed{HostIndex{0}, {Code::unreachable, "gpu0: connection refused"}});
    CHECK(bench.count<StopHost>() == 1);
    bench.tell(HostStopped{HostIndex{1}});
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->host_errors.size() == 2);
    CHECK(bench.outcome->host_errors[0].first == HostIndex{0});
    CHECK(bench.outcome->exit_code == 69);
    CHECK(bench.count<StartWorker>() == 0);
  }

  TEST_CASE("a program that is missing on all hosts is exit code 127") {
    Bench bench(2);
    bench.tell(HostFailed{HostIndex{0}, {Code::not_found, "gpu0: program 'x' not found"}});
    bench.tell(HostFailed{HostIndex{1}, {Code::not_found, "gpu1: program 'x' not found"}});
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == 127);
  }

  TEST_CASE("a host that never answers is named when the start deadline passes") {
    Bench bench(2);
    bench.tell(HostReady{HostIndex{0}});
    bench.pass(Deadline::start);
    bench.tell(HostStopped{HostIndex{0}});
    REQUIRE(bench.outcome);
    REQUIRE(bench.outcome->host_errors.size() == 1);
    CHECK(bench.outcome->host_errors[0].second.message.find("gpu1") != std::string::npos);
    CHECK(bench.outcome->exit_code == 69);
  }

  TEST_CASE("the first failing rank ends the others with TERM, and gives the exit code") {
    Bench bench(2);
    bench.all_running();
    bench.tell(WorkerExited{WorkerId{3}, ExitStatus::exited(7), bench.now, {}});
    CHECK(bench.signals(SIGTERM) == 1);
    CHECK(bench.machine->phase() == Phase::draining);
    bench.tell(WorkerFinished{WorkerId{3}});
    for (std::uint32_t id : {1u, 2u, 4u}) bench.end(id, ExitStatus::killed(SIGTERM, false));
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == 7);
    CHECK(bench.outcome->cause->rank == Rank{2});
    CHECK(bench.outcome->others.terminated == 3);
    CHECK(bench.signals(SIGKILL) == 0);
  }

  TEST_CASE("the rendezvous hears who failed, and how, before anybody is signalled") {
    Bench bench(2);
    bench.all_running();
    bench.tell(WorkerExited{WorkerId{3}, ExitStatus::exited(7), bench.now, {}});
    std::optional<EndGeneration> end;
    for (const auto& action : bench.actions) {
      if (const auto* it = std::get_if<EndGeneration>(&action)) end = *it;
      if (std::get_if<SignalWorkers>(&action)) REQUIRE(end);
    }
    REQUIRE(end);
    CHECK(end->culprit == Rank{2});
    CHECK(output::reason_for_members(*end) == "exited with code 7");
  }

  TEST_CASE("a rank that ignores TERM is killed after the grace, and counted so") {
    Bench bench(1);
    bench.all_running();
    const auto failed = bench.now;
    bench.end(1, ExitStatus::exited(1), failed);
    CHECK(bench.signals(SIGKILL) == 0);
    bench.pass(Deadline::grace);
    CHECK(bench.signals(SIGKILL) == 1);
    bench.end(2, ExitStatus::killed(SIGKILL, false));
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->others.killed == 1);
    CHECK(bench.outcome->exit_code == 1);
    CHECK(bench.outcome->after == failed - bench.begun);  // the grace is not counted
  }

  TEST_CASE("a rank that even KILL does not end holds nobody up") {
    Bench bench(2);
    bench.all_running();
    bench.end(1, ExitStatus::exited(1), bench.now);
    bench.end(2, ExitStatus::killed(SIGTERM, false));
    bench.end(3, ExitStatus::killed(SIGTERM, false));
    bench.pass(Deadline::grace);
    bench.pass(Deadline::kill);
    CHECK(bench.count<AbandonHost>() == 1);
    bench.tell(HostStopped{HostIndex{0}});
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->others.lost == 1);
  }

  TEST_CASE("the failure that came first by the clocks is the cause, whatever arrived first") {
    Bench bench(2);
    bench.all_running();
    const auto t = bench.now;
    bench.tell(WorkerExited{WorkerId{1}, ExitStatus::exited(134), t, {}});
    bench.tell(WorkerExited{WorkerId{4}, ExitStatus::killed(SIGSEGV, false), t - milliseconds(5), {}});
    for (std::uint32_t id : {1u, 4u}) bench.tell(WorkerFinished{WorkerId{id}});
    for (std::uint32_t id : {2u, 3u}) bench.end(id, ExitStatus::killed(SIGTERM, false));
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->cause->rank == Rank{3});
    CHECK(bench.outcome->exit_code == 139);
  }

  TEST_CASE("within the error of the clocks a symptom of its own beats a lost peer") {
    Bench bench(2);
    bench.all_running();
    const auto t = bench.now;
    bench.tell(WorkerExited{WorkerId{1}, ExitStatus::exited(1), t, milliseconds(2)});
    bench.tell(WorkerExited{WorkerId{4}, ExitStatus::exited(3), t + milliseconds(1), milliseconds(2)});
    bench.tell(WorkerFinished{WorkerId{1}, true});
    bench.tell(WorkerFinished{WorkerId{4}, false});
    for (std::uint32_t id : {2u, 3u}) bench.end(id, ExitStatus::killed(SIGTERM, false));
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->cause->rank == Rank{3});
  }

  TEST_CASE("ranks that we ended are never the cause") {
    Bench bench(1);
    bench.all_running();
    bench.end(1, ExitStatus::exited(5), bench.now);
    bench.end(2, ExitStatus::exited(9), bench.now - seconds(1));  // whatever its host's clock says
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == 5);
    CHECK(bench.outcome->others.terminated == 1);
  }

  TEST_CASE("a lost host takes its ranks along, drains the rest, and is the cause") {
    Bench bench(2);
    bench.all_running();
    bench.tell(HostLost{HostIndex{1}, "no answer for 10.0 s"});
    const auto lost = bench.now;
    CHECK(bench.signals(SIGTERM) == 1);
    bench.end(1, ExitStatus::killed(SIGTERM, false));
    bench.end(2, ExitStatus::killed(SIGTERM, false));
    bench.tell(HostStopped{HostIndex{0}});
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->kind == Outcome::Kind::host_lost);
    CHECK(bench.outcome->exit_code == 69);
    CHECK(bench.outcome->others.lost == 2);
    CHECK(bench.outcome->after == lost - bench.begun);
  }

  TEST_CASE("a host that is lost before any worker was started ends the job") {
    Bench bench(2);
    bench.all_ready();
    bench.tell(HostLost{HostIndex{1}, "gone"});
    bench.tell(HostStopped{HostIndex{0}});
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == 69);
    CHECK(bench.outcome->others.not_started == 4);
  }

  TEST_CASE("an agent that is told to end ends the job, and its ranks have their grace") {
    Bench bench(2);
    bench.all_running();
    bench.tell(HostLeaving{HostIndex{1}, "the agent got SIGTERM"});
    CHECK(bench.machine->phase() == JobMachine::Phase::draining);
    CHECK(bench.armed.contains(Deadline::grace));
    bench.tell(HostLeaving{HostIndex{0}, "the agent got SIGTERM"});
    for (std::uint32_t id = 1; id <= 4; ++id) bench.end(id, ExitStatus::exited(0));
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->kind == Outcome::Kind::host_lost);
    CHECK(bench.outcome->exit_code == 69);
    CHECK(bench.outcome->host == HostIndex{1});
  }

  TEST_CASE("who ends all of a job's processes ends it by that signal, whoever hears of it first") {
    for (const bool agent_first : {true, false}) {
      Bench bench(1);
      bench.all_running();
      if (agent_first) bench.tell(HostLeaving{HostIndex{0}, "the agent got SIGTERM"});
      bench.tell(UserSignal{SIGTERM});
      if (!agent_first) bench.tell(HostLeaving{HostIndex{0}, "the agent got SIGTERM"});
      CHECK(bench.armed.contains(Deadline::grace));
      for (std::uint32_t id = 1; id <= 2; ++id) bench.end(id, ExitStatus::killed(SIGTERM, false));
      bench.all_stopped();
      REQUIRE(bench.outcome);
      CHECK(bench.outcome->kind == Outcome::Kind::user_signal);
      CHECK(bench.outcome->exit_code == 128 + SIGTERM);
    }
  }

  TEST_CASE("losing every host ends the job at once") {
    Bench bench(2);
    bench.all_running();
    bench.tell(HostLost{HostIndex{1}, "gone"});
    bench.tell(HostLost{HostIndex{0}, "gone"});
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == 69);
  }

  TEST_CASE("a signal while hosts are dialled ends the job without starting anything") {
    Bench bench(2);
    bench.tell(HostReady{HostIndex{0}});
    bench.tell(UserSignal{SIGTERM});
    CHECK(bench.count<AbandonHost>() == 1);
    bench.tell(HostStopped{HostIndex{0}});
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == 143);
    CHECK(bench.count<StartWorker>() == 0);
  }

  TEST_CASE("an agent that comes up while the job is ending is dropped at once") {
    Bench bench(2);
    bench.tell(UserSignal{SIGINT});
    const auto before = bench.count<AbandonHost>();
    bench.tell(HostReady{HostIndex{1}});
    CHECK(bench.count<AbandonHost>() == before + 1);
    CHECK(bench.count<StartWorker>() == 0);
  }

  TEST_CASE("--timeout drains with 124, a closed stdout with 141") {
    Bench bench(1, [](JobSpec& spec) { spec.timeout = seconds(5); });
    bench.all_running();
    SUBCASE("timeout") {
      bench.pass(Deadline::job);
      for (std::uint32_t id : {1u, 2u}) bench.end(id, ExitStatus::killed(SIGTERM, false));
      bench.all_stopped();
      REQUIRE(bench.outcome);
      CHECK(bench.outcome->exit_code == 124);
    }
    SUBCASE("stdout") {
      bench.tell(OutputClosed{});
      for (std::uint32_t id : {1u, 2u}) bench.end(id, ExitStatus::killed(SIGTERM, false));
      bench.all_stopped();
      REQUIRE(bench.outcome);
      CHECK(bench.outcome->exit_code == 141);
    }
  }

  TEST_CASE("a worker that cannot be started fails the job with its reason") {
    Bench bench(1);
    bench.all_ready();
    bench.tell(PortReserved{Generation{1}});
    bench.tell(WorkerStarted{WorkerId{1}, 1});
    bench.tell(WorkerNotStarted{WorkerId{2}, ExitStatus::not_started(SpawnStage::exec, ENOENT)});
    CHECK(bench.signals(SIGTERM) == 1);
    bench.end(1, ExitStatus::killed(SIGTERM, false));
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == 127);
  }

  TEST_CASE("an agent that does not say goodbye does not hold the end up for ever") {
    Bench bench(2);
    bench.all_running();
    for (std::uint32_t id = 1; id <= 4; ++id) bench.end(id, ExitStatus::exited(0));
    bench.tell(HostStopped{HostIndex{0}});
    bench.pass(Deadline::stop);
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == 0);
  }

  TEST_CASE("every event in every phase keeps the invariants, in any order, and the end is reached once") {
    for (unsigned seed = 1; seed <= 3000; ++seed) {
      std::mt19937 random(seed);
      Bench bench(2, [](JobSpec& spec) { spec.timeout = seconds(100); });
      int finishes = 0;
      for (int i = 0; i < 60; ++i) {
        const HostIndex host{static_cast<std::uint32_t>(random() % 2)};
        const bool any_worker = bench.machine->seat_of(WorkerId{1}) != nullptr;
        const WorkerId worker{1 + static_cast<std::uint32_t>(random() % 4)};
        std::vector<JobEvent> events{HostReady{host},
                                     HostFailed{host, {Code::unreachable, "x"}},
                                     HostLost{host, "gone"},
                                     PortReserved{Generation{1}},
                                     PortRefused{Generation{1}, {Code::try_again, "x"}},
                                     HostStopped{host},
                                     OutputClosed{},
                                     DeadlinePassed{static_cast<Deadline>(random() % 5)}};
        if (random() % 8 == 0) events.push_back(UserSignal{SIGINT});
        if (any_worker) {
          for (int k = 0; k < 3; ++k) {
            events.insert(
                events.end(),
                {WorkerStarted{worker, 1},
                 WorkerExited{worker, ExitStatus::exited(static_cast<int>(random() % 2)), bench.now, {}},
                 WorkerFinished{worker}});
          }
          events.push_back(WorkerNotStarted{worker, ExitStatus::not_started(SpawnStage::exec, ENOENT)});
          events.push_back(WorkerAborted{worker, 7, bench.now, {}, {}});
          events.push_back(ExchangeBroken{Generation{1}, {Rank{worker.value - 1}}, "x"});
        } else {
          events.insert(events.end(),
                        {HostReady{HostIndex{0}}, HostReady{HostIndex{1}}, PortReserved{Generation{1}}});
        }
        const auto before = bench.count<Finish>();
        bench.tell(events[random() % events.size()]);
        finishes += bench.count<Finish>() - before;
      }
      INFO("seed ", seed);
      CHECK(finishes <= 1);
      CHECK((bench.machine->phase() == Phase::done) == (finishes == 1));
    }
  }
}
