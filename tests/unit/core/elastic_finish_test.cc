// The end of an in-place program, whose ranks finish one after the other (decision 0033).
#include <doctest/doctest.h>

#include "tests/unit/core/elastic_bench.h"

namespace trainrun::core {
namespace {

using Phase = JobMachine::Phase;
using Bench = ElasticBench;
using Kind = Outcome::Kind;

void finishes(Bench& bench, std::uint32_t rank) { bench.end(bench.at(rank), ExitStatus::exited(0)); }
void asks(Bench& bench, std::uint32_t rank) {
  bench.tell(MemberWaits{Generation{bench.generation()}, bench.at(rank)});
}

}  // namespace

TEST_SUITE("core.elastic finish") {
  TEST_CASE(
      "a rank dies when another has finished: the others may finish, and the job fails by the dead one") {
    Bench bench(2, OnFailure::in_place, [](JobSpec& spec) { spec.elastic.limit.count = 0; });
    bench.all_running(true);
    finishes(bench, 0);
    bench.end(bench.at(3), ExitStatus::exited(7));
    CHECK(bench.count<EndGeneration>() == 1);
    CHECK(bench.phase() == Phase::cooling);
    CHECK(bench.has_said("rank 3 on gpu1 exited with code 7; rank 0 on gpu0 finished: waiting up to"));
    finishes(bench, 1);
    CHECK(bench.count<BeginWorld>() == 1);
    finishes(bench, 2);
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->kind == Kind::worker_failed);
    CHECK(bench.outcome->exit_code == 7);
    CHECK(bench.outcome->restarts == 0);
    CHECK(bench.outcome->unfinished == 0);
  }

  TEST_CASE("one that neither finishes nor asks is ended after --start-timeout") {
    Bench bench(2, OnFailure::in_place, [](JobSpec& spec) { spec.start_timeout = seconds(4); });
    bench.all_running(true);
    finishes(bench, 2);
    CHECK_FALSE(bench.armed.contains(Deadline::finish));  // it may take its time while nobody is disturbed
    asks(bench, 0);
    finishes(bench, 1);
    CHECK(bench.count<BeginWorld>() == 1);
    const auto last = bench.at(3);
    bench.pass(Deadline::finish);
    CHECK(bench.signals(SIGTERM) == 1);
    bench.end(bench.at(0), ExitStatus::killed(SIGTERM, false));
    bench.end(last, ExitStatus::exited(0));  // too late: it was asked to end
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->kind == Kind::unfinished);
    CHECK(bench.outcome->exit_code == 124);
    CHECK(bench.outcome->unfinished == 2);
    REQUIRE(bench.outcome->why);
    CHECK(output::words(*bench.outcome->why) ==
          "rank 2 on gpu1 finished, rank 0 on gpu0 and rank 3 on gpu1 did not");
  }

  TEST_CASE("those that ask go on without the finished if they are enough, and nobody is started") {
    Bench bench(2, OnFailure::in_place);
    bench.all_running(true);
    finishes(bench, 1);
    SUBCASE("since it finished: that costs nothing") {
      for (const std::uint32_t rank : {0u, 2u, 3u}) asks(bench, rank);
      bench.form(true);
      CHECK(bench.ranks() == 3);
      CHECK(bench.machine->restarts() == 0);
    }
    SUBCASE("since one failed: that costs a restart, when they ask") {
      bench.end(bench.at(3), ExitStatus::killed(SIGKILL, false));
      CHECK(bench.machine->restarts() == 0);
      for (const std::uint32_t rank : {0u, 2u}) asks(bench, rank);
      CHECK(bench.machine->restarts() == 1);
      bench.form(true);
      CHECK(bench.ranks() == 2);
    }
    CHECK(bench.count<StartWorker>() == 4);
    bench.tell(HostsDiscovered{{Bench::host(0), Bench::host(1), Bench::host(2)}});
    CHECK_FALSE(bench.armed.contains(Deadline::settle));  // it does not grow any more
    bench.finish_all();
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == 0);
  }

  TEST_CASE("those that ask are too few: the job ends at once, with words") {
    Bench bench(1, OnFailure::in_place);
    bench.all_running(true);
    finishes(bench, 0);
    asks(bench, 1);
    CHECK(bench.signals(SIGTERM) == 1);
    bench.drained();
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->kind == Kind::unfinished);
    REQUIRE(bench.outcome->why);
    CHECK(output::words(*bench.outcome->why) ==
          "rank 0 on gpu0 finished, rank 1 on gpu0 did not, and --min-np is 2");
  }

  TEST_CASE("a survivor finishes when the world was formed around it: the others do not wait for it") {
    Bench bench(2, OnFailure::in_place);
    bench.all_running(true);
    bench.end(bench.at(3), ExitStatus::exited(1));
    bench.tell(PortReserved{*std::exchange(bench.port, std::nullopt)});
    bench.meet();
    bench.newcomers_ask();
    for (const std::uint32_t rank : {0u, 1u, 2u}) asks(bench, rank);
    bench.form();
    REQUIRE(bench.ranks() == 4);
    const auto newcomer = bench.at(3);
    finishes(bench, 0);
    CHECK(bench.count<EndGeneration>() == 3);
    CHECK(bench.phase() == Phase::cooling);
    SUBCASE("all with the state finish: it is not made a world of one") {
      finishes(bench, 1);
      finishes(bench, 2);
      bench.tell(MemberWaits{Generation{3}, newcomer});
      bench.drained();
      bench.all_stopped();
      REQUIRE(bench.outcome);
      CHECK(bench.outcome->kind == Kind::unfinished);
      CHECK(bench.outcome->unfinished == 1);
    }
    SUBCASE("the others ask") {
      for (const std::uint32_t rank : {1u, 2u, 3u}) asks(bench, rank);
      bench.form(true);
      CHECK(bench.ranks() == 3);
      CHECK(bench.machine->restarts() == 1);
    }
  }

  TEST_CASE("a host leaves when a rank has finished: its ranks are not told, and may finish") {
    Bench bench(2, OnFailure::in_place);
    bench.all_running(true);
    finishes(bench, 0);
    bench.tell(HostLeaving{HostIndex{1}, "SIGTERM"});
    CHECK(bench.count<Announce>() == 0);
    SUBCASE("they do") {
      for (const std::uint32_t rank : {1u, 2u, 3u}) finishes(bench, rank);
      bench.all_stopped();
      REQUIRE(bench.outcome);
      CHECK(bench.outcome->exit_code == 0);
    }
    SUBCASE("they do not") {
      bench.lose(1);
      finishes(bench, 1);
      bench.all_stopped();
      REQUIRE(bench.outcome);
      CHECK(bench.outcome->kind == Kind::unfinished);
      REQUIRE(bench.outcome->why);
      CHECK(output::words(*bench.outcome->why) ==
            "rank 0 on gpu0 finished, rank 2 on gpu1 and rank 3 on gpu1 did not");
    }
  }

  TEST_CASE("a host is lost on which all had finished: the others are not disturbed") {
    Bench bench(2, OnFailure::in_place);
    bench.all_running(true);
    bench.tell(WorkerExited{bench.at(2), ExitStatus::exited(0), bench.now, {}});
    bench.tell(WorkerExited{bench.at(3), ExitStatus::exited(0), bench.now, {}});
    bench.lose(1);
    CHECK(bench.phase() == Phase::running);
    CHECK(bench.count<EndGeneration>() == 0);
    bench.finish_all();
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == 0);
  }

  TEST_CASE("all others ask since a host is to leave, and then one finishes: nobody waits for it") {
    Bench bench(2, OnFailure::in_place);
    bench.all_running(true);
    bench.tell(RemoveHost{"gpu1"});
    CHECK(bench.count<Announce>() == 1);
    for (const std::uint32_t rank : {1u, 2u, 3u}) asks(bench, rank);
    finishes(bench, 0);
    REQUIRE(bench.outcome.has_value() == false);
    bench.drained();
    bench.all_stopped();
    REQUIRE(bench.outcome);  // rank 1 alone is too few
    CHECK(bench.outcome->kind == Kind::unfinished);
  }

  TEST_CASE("who closes its connections before it ends is not killed for that") {
    Bench bench(2, OnFailure::in_place);
    bench.all_running(true);
    finishes(bench, 0);
    bench.tell(WorldBroken{Generation{1}, "rank 1 had not left", {Rank{1}}});
    CHECK(bench.signals(SIGKILL) == 0);
    for (const std::uint32_t rank : {1u, 2u, 3u}) finishes(bench, rank);
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == 0);
  }

  // No names mean all.
  TEST_CASE("the grace of a start that came in time ends nobody else") {
    Bench bench(2, OnFailure::in_place);
    bench.ready(0);
    bench.ready(1);
    bench.tell(PortReserved{*bench.port});
    for (const std::uint32_t rank : {0u, 1u, 2u}) bench.tell(WorkerStarted{bench.at(rank), 1000 + rank});
    for (const std::uint32_t rank : {0u, 1u, 2u}) bench.tell(MemberJoined{Generation{1}, Rank{rank}});
    bench.tell(WorldBroken{Generation{1}, "rank 0 was lost", {Rank{0}}});
    REQUIRE(bench.signals(SIGKILL) == 1);  // to rank 0, which withstands it
    bench.tell(WorkerStarted{bench.at(3), 1003});
    bench.pass(Deadline::grace);
    CHECK(bench.signals(SIGKILL) == 1);
    CHECK(bench.armed.contains(Deadline::kill));
  }

  // By simulation: their grace began with the next generation alone, whose port may not come.
  TEST_CASE("those that have no place in the world that goes on have their grace from then on") {
    Bench bench(3, OnFailure::in_place);
    bench.all_running(true);
    bench.tell(RemoveHost{"gpu2"});
    for (const std::uint32_t rank : {1u, 2u, 3u, 4u, 5u}) asks(bench, rank);
    finishes(bench, 0);
    CHECK(bench.count<Dismiss>() == 2);
    CHECK(bench.phase() == Phase::forming);
    CHECK(bench.armed.contains(Deadline::leave));
  }

  // By simulation: a SIGKILL that was not sent was waited for.
  TEST_CASE("a process that withstands SIGKILL ends the job: the others have their grace") {
    Bench bench(2, OnFailure::in_place, [](JobSpec& spec) { spec.elastic.min_np = 4; });
    bench.ready(0);
    bench.ready(1);
    bench.tell(PortReserved{*bench.port});
    for (const std::uint32_t rank : {0u, 1u, 2u}) bench.tell(WorkerStarted{bench.at(rank), 1000 + rank});
    for (const std::uint32_t rank : {0u, 1u, 2u}) bench.tell(MemberJoined{Generation{1}, Rank{rank}});
    finishes(bench, 0);
    bench.tell(WorldBroken{Generation{1}, "rank 0 was lost", {Rank{0}}});
    for (const std::uint32_t rank : {1u, 2u}) asks(bench, rank);
    bench.pass(Deadline::grace);
    bench.pass(Deadline::kill);
    CHECK(bench.count<AbandonHost>() == 1);
    CHECK(bench.phase() == Phase::draining);
    CHECK(bench.signals(SIGTERM) == 1);
    CHECK(bench.armed.contains(Deadline::grace));
    CHECK_FALSE(bench.armed.contains(Deadline::kill));
  }

  TEST_CASE("a minute after, the world that went on may grow again") {
    Bench bench(2, OnFailure::in_place);
    bench.all_running(true);
    finishes(bench, 3);
    for (const std::uint32_t rank : {0u, 1u, 2u}) asks(bench, rank);
    bench.form(true);
    bench.pass(Deadline::steady);
    CHECK(bench.count<PlanNewcomers>() == 1);  // the slot of rank 3 is there
    bench.newcomers_ask();
    CHECK(bench.count<Announce>() == 1);
  }
}

TEST_CASE("a failure stays the cause of what ends before the next world has met, also after that one hung") {
  Bench bench(1, OnFailure::in_place, [](JobSpec& spec) { spec.elastic.hang_timeout = seconds(30); });
  bench.all_running(true);
  bench.end(bench.at(1), ExitStatus::killed(SIGKILL, false));
  bench.form();
  bench.tell(MemberJoined{Generation{2}, Rank{0}});
  bench.tell(WorldSilent{seconds(30)});
  bench.tell(InspectionDone{HostIndex{0}});
  bench.end(bench.at(1), ExitStatus::killed(SIGKILL, false));
  bench.pass(Deadline::backoff);
  bench.end(bench.at(0), ExitStatus::exited(0));
  bench.drained();
  bench.all_stopped();
  REQUIRE(bench.outcome);
  CHECK(bench.outcome->exit_code == 128 + SIGKILL);
  REQUIRE(bench.outcome->cause);
  CHECK(bench.outcome->cause->rank == Rank{1});
}
}  // namespace trainrun::core
