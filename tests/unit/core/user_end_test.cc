// The user, or a batch system, ends the job.
#include <algorithm>
#include <cerrno>

#include "tests/unit/core/job_bench.h"

using namespace trainrun;
using namespace trainrun::core;
using Phase = JobMachine::Phase;
using Bench = JobBench;

TEST_SUITE("core.user_end") {
  TEST_CASE("the first ^C drains, the second kills, the third leaves") {
    Bench bench(1);
    bench.all_running();
    bench.tell(UserSignal{SIGINT});
    CHECK(bench.count<EndGeneration>([](const auto& it) { return !it.culprit; }) == 1);
    CHECK(bench.signals(SIGTERM) == 1);
    CHECK(bench.signals(SIGKILL) == 0);
    for (int echo = 0; echo < 2; ++echo) bench.tell(UserSignal{SIGINT});  // of the same press
    CHECK(bench.signals(SIGKILL) == 0);
    bench.now += seconds(1);
    bench.tell(UserSignal{SIGINT});
    CHECK(bench.signals(SIGKILL) == 1);
    CHECK_FALSE(bench.outcome);
    bench.now += seconds(1);
    bench.tell(UserSignal{SIGINT});
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == 130);
    CHECK(bench.count<AbandonHost>() == 1);
    CHECK(bench.outcome->others.left == 2);
    CHECK(bench.outcome->others.lost == 0);
  }

  TEST_CASE("another signal is another wish, also at once") {
    Bench bench(1);
    bench.all_running();
    bench.tell(UserSignal{SIGINT});
    bench.tell(UserSignal{SIGTERM});
    CHECK(bench.signals(SIGKILL) == 1);
  }

  TEST_CASE("what is ordered by ctl is told as that, and ends with SIGTERM's code") {
    Bench bench(1);
    bench.all_running();
    bench.tell(UserSignal{SIGTERM, true});
    CHECK(bench.count<Tell>([&](const auto& it) {
      return it.notice ==
             Notice{notice::EndRequested{SIGTERM, true, EndAnswer::ends_ranks, 2, bench.spec.grace}};
    }) == 1);
    for (const std::uint32_t id : {1u, 2u}) bench.end(id, ExitStatus::killed(SIGTERM, false));
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == 143);
    CHECK(bench.outcome->by_ctl);
  }

  TEST_CASE("a success whose last output waits to be read becomes the user's end, once") {
    Bench bench(1);
    bench.all_running();
    for (const std::uint32_t id : {1u, 2u}) bench.end(id, ExitStatus::exited(0));
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == 0);
    bench.now += seconds(2);
    const auto began = bench.count<Finish>();
    bench.tell(UserSignal{SIGINT});
    CHECK(bench.count<Finish>() == began + 1);
    CHECK(bench.outcome->kind == Outcome::Kind::user_signal);
    CHECK(bench.outcome->exit_code == 130);
    CHECK(bench.outcome->after >= seconds(2));
    CHECK(bench.outcome->took == Duration::zero());
    CHECK(bench.count<Tell>([&](const auto& it) {
      return it.notice ==
             Notice{notice::EndRequested{SIGINT, false, EndAnswer::waits_for_output, 0, bench.spec.grace}};
    }) == 1);
    bench.now += seconds(2);
    bench.tell(UserSignal{SIGTERM});
    CHECK(bench.count<Finish>() == began + 1);
    CHECK(bench.outcome->exit_code == 130);
  }

  TEST_CASE("who comes after a failure changes nothing about it") {
    Bench bench(1);
    bench.all_running();
    bench.end(1, ExitStatus::exited(3));
    bench.end(2, ExitStatus::killed(SIGTERM, false));
    bench.all_stopped();
    REQUIRE(bench.outcome);
    bench.tell(UserSignal{SIGINT});
    CHECK(bench.count<Finish>() == 1);
    CHECK(bench.outcome->exit_code == 3);
  }

  TEST_CASE("a host that falls silent while the user's end goes on is named; one that ends as well is not") {
    for (const bool closed : {false, true}) {
      Bench bench(2);
      bench.all_running();
      bench.tell(UserSignal{SIGTERM});
      bench.tell(HostLost{HostIndex{0}, "no answer for 10.0 s", {}, false, closed});
      const auto lines = bench.said();
      const auto named = std::count(lines.begin(), lines.end(), "gpu0 lost (no answer for 10.0 s)");
      CHECK(named == (closed ? 0 : 1));
    }
  }

  TEST_CASE("ranks whose agent a cancel reached as well were ended by it, and not lost") {
    for (const bool agent_first : {false, true}) {
      Bench bench(2);
      bench.all_running();
      if (!agent_first) bench.tell(UserSignal{SIGTERM});
      bench.tell(HostLost{HostIndex{0}, "its agent or the connection to it ended", {}, false, true});
      if (agent_first) bench.tell(UserSignal{SIGTERM});
      for (const std::uint32_t id : {3u, 4u}) bench.end(id, ExitStatus::killed(SIGTERM, false));
      bench.all_stopped();
      REQUIRE(bench.outcome);
      CHECK(bench.outcome->exit_code == 143);
      CHECK(bench.outcome->others.terminated == 4);
      CHECK(bench.outcome->others.lost == 0);
    }
  }

  TEST_CASE("ranks that were ordered and are not started any more hold up no end, and have not failed") {
    Bench bench(2);
    bench.all_ready();
    bench.tell(PortReserved{Generation{1}});
    bench.tell(WorkerStarted{WorkerId{1}, 1001});
    bench.tell(UserSignal{SIGTERM});
    for (const std::uint32_t id : {2u, 3u, 4u})
      bench.tell(WorkerNotStarted{WorkerId{id}, ExitStatus::not_started(SpawnStage::none, ECANCELED)});
    bench.end(1, ExitStatus::killed(SIGTERM, false));
    CHECK(bench.machine->phase() == Phase::closing);
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == 143);
    CHECK(bench.outcome->others.not_started == 3);
    CHECK(bench.outcome->others.failed == 0);
  }

  TEST_CASE("a cancel that reaches ranks or an agent before us is a cancel all the same") {
    Bench bench(2);
    bench.all_running();
    int code = 143;
    bool all_have_ended = false;
    SUBCASE("a rank") { bench.end(1, ExitStatus::killed(SIGTERM, false)); }
    SUBCASE("an agent") { bench.tell(HostLost{HostIndex{1}, "its agent or the connection to it ended"}); }
    SUBCASE("both, before all of us") {
      bench.tell(HostLost{HostIndex{0}, "its agent was told to end"});
      all_have_ended = true;
    }
    SUBCASE("but a rank that failed by itself is the cause, though the user then ends the rest") {
      bench.end(1, ExitStatus::exited(3));
      code = 3;
    }
    REQUIRE(bench.machine->phase() == Phase::draining);
    if (!all_have_ended) bench.tell(UserSignal{SIGTERM});
    for (std::uint32_t id = 1; id <= 4; ++id) bench.end(id, ExitStatus::killed(SIGTERM, false));
    if (all_have_ended) {
      CHECK(bench.machine->phase() == Phase::closing);
      bench.tell(UserSignal{SIGTERM});
    }
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == code);
  }
}
