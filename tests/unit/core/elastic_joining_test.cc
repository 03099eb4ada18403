// In place: who comes to the next generation, and how long the others wait.
#include "tests/unit/core/elastic_bench.h"

using namespace trainrun;
using namespace trainrun::core;
using Phase = JobMachine::Phase;
using Bench = ElasticBench;

TEST_SUITE("core.elastic joining") {
  TEST_CASE("one that does not come to the next world is ended, and the world forms without it") {
    Bench bench(2, OnFailure::in_place, Bench::needs_all);
    bench.all_running(true);
    bench.end(bench.at(0), ExitStatus::exited(1));
    bench.form();
    const auto stuck = bench.at(2);
    CHECK(bench.machine->progress().joined == 0);
    for (std::uint32_t rank : {0u, 1u, 3u}) bench.tell(MemberJoined{Generation{2}, Rank{rank}});
    CHECK(bench.machine->progress().joined == 3);
    bench.pass(Deadline::join);
    CHECK(bench.count<SignalWorkers>(
              [&](const auto& it) { return it.number == SIGKILL && it.workers == std::vector{stuck}; }) == 1);
    bench.end(stuck, ExitStatus::killed(SIGKILL, false));
    bench.pass(Deadline::backoff);
    bench.form(true);
    CHECK(bench.generation() == 3);
    CHECK(bench.machine->progress().joined == 0);  // all have met, and run
    bench.tell(MemberWaits{Generation{3}, bench.at(0)});
    CHECK(bench.machine->progress().waiting == 1);
  }

  TEST_CASE(
      "survivors that may wait for each other in a world that has failed are to be freed, and no others") {
    Bench bench(2, OnFailure::in_place, Bench::needs_all);
    const auto freed = [&] {
      return bench.count<EndGeneration>([](const auto& it) { return it.free_survivors; });
    };
    bench.all_running(true);
    SUBCASE("a rank fails") {
      bench.end(bench.at(3), ExitStatus::exited(1));
      CHECK(freed() == 1);
    }
    SUBCASE("a host is lost") {
      bench.lose(1);
      CHECK(freed() == 1);
    }
    SUBCASE("a host leaves: all of them leave the world by themselves") {
      bench.tell(HostLeaving{HostIndex{1}, "SIGTERM"});
      for (const std::uint32_t rank : {0u, 1u, 2u, 3u})
        bench.tell(MemberWaits{Generation{1}, bench.at(rank)});
      CHECK(bench.count<EndGeneration>() == 1);
      CHECK(freed() == 0);
    }
    SUBCASE("a host that was to leave is gone before they do") {
      bench.tell(HostLeaving{HostIndex{1}, "SIGTERM"});
      bench.lose(1);
      CHECK(bench.count<EndGeneration>() == 1);
      CHECK(freed() == 1);
    }
    SUBCASE("the user ends the job") {
      bench.tell(UserSignal{SIGTERM});
      CHECK(bench.count<EndGeneration>() == 1);
      CHECK(freed() == 0);
    }
    SUBCASE("all start anew") {
      Bench anew(2, OnFailure::restart_world, Bench::needs_all);
      anew.all_running(true);
      anew.end(anew.at(3), ExitStatus::exited(1));
      CHECK(anew.count<EndGeneration>() == 1);
      CHECK(anew.count<EndGeneration>([](const auto& it) { return it.free_survivors; }) == 0);
    }
  }

  TEST_CASE("in place: one that starts anew may load for longer than --start-timeout, and survivors wait") {
    Bench bench(2, OnFailure::in_place, [](JobSpec& spec) {
      spec.start_timeout = seconds(4);
      Bench::needs_all(spec);
    });
    bench.all_running(true);
    bench.end(bench.at(3), ExitStatus::exited(1));
    bench.form();
    const auto newcomer = bench.at(3);
    for (const std::uint32_t rank : {0u, 1u, 2u}) bench.tell(MemberJoined{Generation{2}, Rank{rank}});
    bench.pass(Deadline::join);
    CHECK(bench.phase() == Phase::running);
    CHECK(bench.signals(SIGKILL) == 0);
    SUBCASE("it comes") {
      bench.meet();
      CHECK(bench.has_said("generation 2: 4 ranks on 2 hosts"));
      CHECK_FALSE(bench.armed.contains(Deadline::join));
    }
    SUBCASE("it does not: it alone ends, and the words name the flag") {
      bench.pass(Deadline::join);
      CHECK(bench.count<SignalWorkers>([&](const auto& it) { return it.workers == std::vector{newcomer}; }) ==
            1);
      CHECK(bench.has_said(
          "rank 3 on gpu1 did not join generation 2 within 40.0 s (ten times --start-timeout)"));
    }
    SUBCASE("it ends well without coming, and nobody waits for it") {
      bench.end(newcomer, ExitStatus::exited(0));
      CHECK(bench.count<EndGeneration>() == 2);
      CHECK(bench.signals(SIGKILL) == 0);
      for (const std::uint32_t rank : {0u, 1u, 2u})
        bench.tell(MemberWaits{Generation{2}, bench.world.workers[rank]});
      CHECK(bench.phase() == Phase::draining);  // they are too few
      bench.drained();
      bench.all_stopped();
      REQUIRE(bench.outcome);
      CHECK(bench.outcome->kind == Outcome::Kind::worker_failed);  // rank 3, before
    }
  }

  TEST_CASE("in place: with --hang-timeout that alone ends one that loads, and only one that has not come") {
    Bench bench(2, OnFailure::in_place, [](JobSpec& spec) {
      spec.elastic.hang_timeout = seconds(30);
      Bench::needs_all(spec);
    });
    bench.all_running(true);
    bench.end(bench.at(3), ExitStatus::exited(1));
    bench.form();
    const auto newcomer = bench.at(3);
    for (const std::uint32_t rank : {0u, 1u, 2u}) bench.tell(MemberJoined{Generation{2}, Rank{rank}});
    bench.pass(Deadline::join);
    CHECK(bench.phase() == Phase::running);
    SUBCASE("it hangs") {
      bench.tell(WorldSilent{seconds(30)});
      for (const std::uint32_t host : {0u, 1u}) bench.tell(InspectionDone{HostIndex{host}});
      CHECK(bench.count<SignalWorkers>([&](const auto& it) { return it.workers == std::vector{newcomer}; }) ==
            1);
      CHECK(bench.signals(SIGKILL) == 1);
    }
    SUBCASE("it ends well without coming") {
      CHECK_FALSE(bench.armed.contains(Deadline::join));
      bench.end(newcomer, ExitStatus::exited(0));
      CHECK(bench.phase() != Phase::running);
    }
  }

  TEST_CASE("in place: a world to which no survivor has come is not taken for one that hangs") {
    Bench bench(2, OnFailure::in_place, [](JobSpec& spec) {
      spec.elastic.hang_timeout = seconds(30);
      Bench::needs_all(spec);
    });
    bench.all_running(true);
    bench.end(bench.at(3), ExitStatus::exited(1));
    bench.form();
    bench.tell(WorldSilent{seconds(30)});
    CHECK_FALSE(bench.armed.contains(Deadline::inspect));
    bench.tell(MemberJoined{Generation{2}, Rank{3}});  // the newcomer
    bench.tell(WorldSilent{seconds(30)});
    CHECK_FALSE(bench.armed.contains(Deadline::inspect));
    bench.tell(MemberJoined{Generation{2}, Rank{1}});
    bench.tell(WorldSilent{seconds(30)});
    CHECK(bench.armed.contains(Deadline::inspect));
  }

  TEST_CASE("in place: who asks for the next world waits for the others as long as a checkpoint may take") {
    Bench bench(2, OnFailure::in_place, [](JobSpec& spec) { spec.start_timeout = seconds(4); });
    bench.all_running(true);
    const auto stuck = bench.at(3);
    const auto asks = [&](std::uint32_t rank) { bench.tell(MemberWaits{Generation{1}, bench.at(rank)}); };
    asks(0);
    const auto first = bench.now;
    for (const std::uint32_t rank : {1u, 2u}) asks(rank);
    REQUIRE(bench.armed.contains(Deadline::join));
    CHECK(bench.armed.at(Deadline::join) == first + seconds(40));
    SUBCASE("one is stuck: it alone ends, and the others go on") {
      bench.tell(RanksAbsent{Generation{1}, {{stuck}}, "the next rendezvous"});
      CHECK(bench.has_said("; whoever is missing is ended in 40.0 s"));
      bench.pass(Deadline::join);
      CHECK(bench.has_said(
          "rank 3 on gpu1 did not join generation 2 within 40.0 s (ten times --start-timeout)"));
      CHECK(bench.has_said("restart 1 of"));
      CHECK(bench.signalled[stuck].contains(SIGKILL));
      CHECK(bench.signals(SIGKILL) == 1);
      bench.end(stuck, ExitStatus::killed(SIGKILL, false));
      if (bench.armed.contains(Deadline::backoff)) bench.pass(Deadline::backoff);
      bench.form(true);
      CHECK(bench.has_said("state kept by 3 survivors; after 4"));  // since the first asked: forty seconds
      CHECK(bench.machine->restarts() == 1);
    }
    SUBCASE("it comes") {
      asks(3);
      CHECK_FALSE(bench.armed.contains(Deadline::join));
      CHECK(bench.signals(SIGKILL) == 0);
    }
    SUBCASE("those that asked have finished, and nobody waits for it") {
      for (const std::uint32_t rank : {0u, 1u, 2u}) bench.end(bench.at(rank), ExitStatus::exited(0));
      CHECK_FALSE(bench.armed.contains(Deadline::join));
      CHECK(bench.phase() == Phase::running);
    }
  }

  TEST_CASE("in place: with --hang-timeout that alone ends one that the others wait for") {
    Bench bench(2, OnFailure::in_place, [](JobSpec& spec) { spec.elastic.hang_timeout = seconds(30); });
    bench.all_running(true);
    bench.tell(MemberWaits{Generation{1}, bench.at(0)});
    CHECK_FALSE(bench.armed.contains(Deadline::join));
  }

  TEST_CASE("in place: the first generation's time counts twice, when it was long") {
    Bench bench(2, OnFailure::in_place, [](JobSpec& spec) {
      spec.start_timeout = seconds(1);
      Bench::needs_all(spec);
    });
    bench.all_running();
    bench.now += seconds(60);
    bench.meet();
    bench.end(bench.at(3), ExitStatus::exited(1));
    bench.form();
    for (const std::uint32_t rank : {0u, 1u, 2u}) bench.tell(MemberJoined{Generation{2}, Rank{rank}});
    for (int i = 0; i < 2; ++i) bench.pass(Deadline::join);
    CHECK(bench.has_said("within 2m00s (twice what the first generation took)"));
  }
}
