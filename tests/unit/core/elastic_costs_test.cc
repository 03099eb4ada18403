// What failures cost: who pays, who waits, and who is given up.
#include "tests/unit/core/elastic_bench.h"
#include "tests/unit/core/job_bench.h"

using namespace trainrun;
using namespace trainrun::core;
using Phase = JobMachine::Phase;
using Bench = ElasticBench;

namespace {

// The next world is begun; one is restarted, and says when it ends that it has lost a peer.
void a_replacement_dies(Bench& bench, int code) {
  if (bench.armed.contains(Deadline::backoff)) bench.pass(Deadline::backoff);
  REQUIRE(bench.port);
  bench.tell(PortReserved{*std::exchange(bench.port, std::nullopt)});
  const auto started = std::exchange(bench.ordered, {});
  bench.tell(WorkerStarted{started.at(0), 1});
  bench.end(started[0], ExitStatus::exited(code), true);
  for (std::size_t i = 1; i < started.size(); ++i) bench.tell(WorkerStarted{started[i], 1});
}

}  // namespace

TEST_SUITE("core.elastic costs") {
  TEST_CASE(
      "in place: a replacement that dies with words of a lost peer pays each time, and at last ends the "
      "job") {
    Bench bench(2, OnFailure::in_place, [](JobSpec& spec) {
      spec.elastic.limit.count = 3;
      spec.elastic.min_np = 4;
    });
    bench.all_running(true);
    bench.end(bench.at(3), ExitStatus::exited(7));
    for (int paid = 2; paid <= 3; ++paid) {
      a_replacement_dies(bench, 1);
      CHECK(bench.machine->restarts() == paid);
    }
    CHECK_FALSE(bench.has_said("gpu1 rests"));  // one that lost a peer is held against nobody
    a_replacement_dies(bench, 9);
    bench.drained();
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->out_of_restarts);
    CHECK(bench.outcome->restarts == 3);
    CHECK(bench.outcome->exit_code == 9);
  }

  TEST_CASE(
      "restart-world: ranks that die with words of a lost peer while the world is started pay each time") {
    Bench bench(1, OnFailure::restart_world, [](JobSpec& spec) { spec.elastic.limit.count = 2; });
    bench.all_running();
    bench.end(bench.at(0), ExitStatus::exited(7));
    for (int paid = 2; paid <= 3; ++paid) {
      bench.drained();
      CHECK_FALSE(bench.outcome);
      a_replacement_dies(bench, 1);
    }
    bench.drained();
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->out_of_restarts);
    CHECK(bench.outcome->restarts == 2);
  }

  TEST_CASE("in place: who was there when a replacement died belongs to that restart") {
    Bench bench(2, OnFailure::in_place, Bench::needs_all);
    bench.all_running(true);
    bench.end(bench.at(3), ExitStatus::exited(1));
    const auto victim = bench.at(2);
    a_replacement_dies(bench, 1);
    CHECK(bench.machine->restarts() == 2);
    bench.pass(Deadline::backoff);
    REQUIRE(bench.phase() == Phase::forming);
    bench.end(victim, ExitStatus::exited(134), true);
    CHECK(bench.machine->restarts() == 2);
  }

  TEST_CASE("a world that got on with its work, or ran for a minute, makes the next restart immediate") {
    Bench bench(2);
    bench.all_running();
    const auto fails = [&] {
      bench.end(bench.at(0), ExitStatus::exited(1));
      bench.drained();
      const bool waits = bench.armed.contains(Deadline::backoff);
      if (waits) bench.pass(Deadline::backoff);
      bench.form();
      return waits;
    };
    CHECK_FALSE(fails());
    CHECK(fails());
    SUBCASE("a member told of it") { bench.tell(WorldProgressed{Generation{bench.generation()}}); }
    SUBCASE("a minute is over") {
      CHECK(bench.armed[Deadline::steady] - bench.now == seconds(60));
      bench.pass(Deadline::steady);
    }
    CHECK_FALSE(fails());
    CHECK(bench.has_said("restart 3 of 10"));                         // it is spent all the same
    bench.tell(WorldProgressed{Generation{bench.generation() - 1}});  // of the one that failed
    CHECK(fails());
    CHECK(bench.armed.contains(Deadline::steady));
    bench.end(bench.at(0), ExitStatus::exited(1));
    CHECK_FALSE(bench.armed.contains(Deadline::steady));
  }

  TEST_CASE(
      "in place: one whose start is awaited is ended after the grace, and only then is its host given up") {
    Bench bench(3, OnFailure::in_place, [](JobSpec& spec) { spec.elastic.min_np = 4; });
    bench.all_running(true);
    for (const std::uint32_t rank : {3u, 4u, 5u}) bench.end(bench.at(rank), ExitStatus::exited(1));
    bench.tell(PortReserved{*std::exchange(bench.port, std::nullopt)});
    REQUIRE(bench.ranks() == 4);
    const auto late = bench.at(3);  // on gpu1
    bench.ordered.clear();
    bench.end(bench.at(0), ExitStatus::exited(1));
    REQUIRE(bench.phase() == Phase::draining);
    CHECK_FALSE(bench.armed.contains(Deadline::kill));  // nobody was killed
    bench.pass(Deadline::grace);
    CHECK(bench.count<SignalWorkers>([&](const auto& it) {
      return it.number == SIGKILL && !it.deep && it.workers == std::vector{late};
    }) == 1);
    CHECK(bench.count<AbandonHost>() == 0);
    SUBCASE("it obeys") {
      bench.tell(WorkerStarted{late, 1});
      bench.end(late, ExitStatus::killed(SIGKILL, false));
      CHECK(bench.count<AbandonHost>() == 0);
    }
    SUBCASE("its agent says nothing at all") {
      bench.pass(Deadline::kill);
      CHECK(bench.count<AbandonHost>() == 1);
    }
    CHECK(bench.phase() == Phase::forming);
  }

  TEST_CASE("in place: who was dismissed when the user ends the job has its time after SIGKILL as well") {
    Bench bench(2, OnFailure::in_place);
    bench.all_running(true);
    bench.tell(HostLeaving{HostIndex{1}, "preempted"});
    for (std::uint32_t rank = 0; rank < 4; ++rank) bench.tell(MemberWaits{Generation{1}, bench.at(rank)});
    REQUIRE(bench.count<Dismiss>() == 2);
    REQUIRE(bench.armed.contains(Deadline::leave));
    bench.tell(UserSignal{SIGINT});
    REQUIRE(bench.armed.contains(Deadline::grace));
    bench.pass(Deadline::grace);
    CHECK(bench.count<SignalWorkers>([](const auto& it) { return it.number == SIGKILL && it.deep; }) == 1);
    // It passes at the same moment, and would take the SIGKILL of just now for one that was withstood.
    CHECK_FALSE(bench.armed.contains(Deadline::leave));
    CHECK(bench.count<AbandonHost>() == 0);
    bench.pass(Deadline::kill);
    CHECK(bench.count<AbandonHost>() == 2);
  }

  TEST_CASE("a sick host that can be left out rests, and nobody waits for it") {
    Bench bench(3, OnFailure::restart_world, [](JobSpec& spec) {
      spec.elastic.discovery.kind = DiscoveryKind::script;
      spec.elastic.max_np = 6;
      spec.elastic.limit = {20, std::chrono::hours(1)};
    });
    bench.all_running();
    const auto fail_on_gpu2 = [&] {
      bench.end(bench.at(static_cast<std::uint32_t>(bench.ranks()) - 1), ExitStatus::exited(7));
      bench.drained();
      if (bench.armed.contains(Deadline::backoff)) bench.pass(Deadline::backoff);
      bench.form();
    };
    for (int i = 0; i < 3; ++i) fail_on_gpu2();
    CHECK(bench.has_said("gpu2 cools down for 10.0 s: 3 of its ranks failed within 10m00s"));
    CHECK(bench.seats() == "0.0 0.1 1.0 1.1");
    bench.pass(Deadline::hosts);
    bench.ready(2);
    bench.pass(Deadline::settle);
    bench.drained();
    bench.form();
    REQUIRE(bench.ranks() == 6);
    bench.end(bench.at(5), ExitStatus::exited(7));
    bench.drained();
    CHECK(bench.has_said("gpu2 cools down for 20.0 s: one of its ranks failed again"));
    CHECK_FALSE(bench.armed.contains(Deadline::backoff));
    bench.form();
    CHECK(bench.ranks() == 4);
  }

  TEST_CASE("one that dies while the next world is waited for is told as well") {
    Bench bench(1, OnFailure::in_place);
    bench.all_running(true);
    const auto ends = [&bench](std::uint32_t rank) { bench.end(bench.at(rank), ExitStatus::exited(7)); };
    ends(1);
    bench.form(true);
    ends(1);
    REQUIRE(bench.armed.contains(Deadline::backoff));
    bench.said.clear();
    ends(0);
    CHECK(
        bench.has_said("rank 0 on gpu0 exited with code 7 as well; restarting all ranks (still restart 2)"));
    bench.pass(Deadline::backoff);
    bench.form(true);
    CHECK(bench.seats() == "0.0 0.1");
  }

  TEST_CASE("a program that fails on one host after the other is slowed down, though each of them rests") {
    Bench bench(2, OnFailure::restart_world, [](JobSpec& spec) {
      spec.programs.front().np = 2;
      spec.elastic.limit.count = 20;
    });
    bench.all_running();
    const auto waits_after_failure = [&] {
      bench.end(bench.at(0), ExitStatus::exited(7));
      bench.drained();
      const bool waits = bench.armed.contains(Deadline::backoff);
      if (waits) bench.pass(Deadline::backoff);
      bench.ready(1);  // once it is dialled
      bench.form();
      return waits;
    };
    for (int i = 0; i < 2; ++i) waits_after_failure();
    CHECK_FALSE(waits_after_failure());
    CHECK(bench.has_said("gpu0 cools down"));
    CHECK(bench.seats() == "1.0 1.1");
    for (int i = 0; i < 2; ++i) waits_after_failure();
    CHECK_FALSE(bench.has_said("gpu1 cools down"));
    CHECK(waits_after_failure());
    CHECK(bench.has_said("gpu1 cools down"));
    CHECK(waits_after_failure());
  }

  TEST_CASE("output that waits for a slow reader costs no host, and the next world does not wait for it") {
    Bench bench(2);
    bench.all_running();
    bench.tell(WorkerExited{bench.at(0), ExitStatus::exited(1), bench.now, {}});
    const auto slow = bench.at(0);
    bench.drained();
    REQUIRE(bench.phase() == Phase::draining);
    bench.pass(Deadline::sweep);
    CHECK(bench.count<AbandonHost>() == 0);
    bench.form();
    bench.tell(WorkerFinished{slow});
    bench.finish_all();
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == 0);
  }

  TEST_CASE(
      "a job that failed waits for whoever reads its last output; one that the user ended does not for "
      "long") {
    JobBench bench(1);
    bench.all_running();
    bench.tell(WorkerExited{WorkerId{1}, ExitStatus::exited(3), bench.now, {}});
    bool asked = false;
    SUBCASE("failed") {}
    SUBCASE("ended by the user") {
      asked = true;
      bench.tell(UserSignal{SIGINT});
    }
    bench.end(2, ExitStatus::killed(SIGTERM, false));
    bench.pass(Deadline::grace);
    CHECK(bench.armed[Deadline::kill] == bench.now + seconds(1));  // nobody lives: it is the output alone
    bench.pass(Deadline::kill);
    CHECK(bench.count<AbandonHost>() == 0);
    CHECK((bench.machine->phase() == Phase::closing) == asked);
    if (!asked) {
      bench.pass(Deadline::kill);
      bench.tell(WorkerFinished{WorkerId{1}});
    }
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == 3);
  }

  TEST_CASE(
      "in place: one has finished, and the host of the other leaves before it has: that is no success") {
    Bench bench(1, OnFailure::in_place, [](JobSpec& spec) { spec.programs[0].np = 2; });
    bench.all_running(true);
    bench.end(bench.at(0), ExitStatus::exited(0));
    bench.tell(WorldBroken{Generation{1}, "rank 0 had not left", {Rank{0}}});
    REQUIRE(bench.phase() == Phase::cooling);
    bench.tell(HostLeaving{HostIndex{0}, "SIGTERM"});
    CHECK(bench.count<Dismiss>() == 0);  // it may be about to finish
    int code = 0;
    SUBCASE("it finishes all the same") { bench.end(bench.at(1), ExitStatus::exited(0)); }
    SUBCASE("it is ended with the host") {
      bench.lose(0);
      code = 124;
    }
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == code);
  }

  TEST_CASE("in place: who holds state goes before who does not, though its host is not listed any more") {
    Bench bench(2, OnFailure::in_place,
                [](JobSpec& spec) { spec.elastic.discovery.kind = DiscoveryKind::script; });
    bench.all_running(true);
    bench.lose(0);
    bench.form(true);  // on gpu1 alone
    while (bench.machine->hosts()[0].state != JobMachine::HostState::dialling) bench.pass(Deadline::hosts);
    bench.ready(0);
    bench.newcomers_ask();
    const auto survivor = bench.at(1);
    for (std::uint32_t rank : {0u, 1u}) bench.tell(MemberWaits{Generation{2}, bench.at(rank)});
    bench.form();  // gpu0 has two that never met the others
    REQUIRE(bench.ranks() == 4);
    bench.tell(HostsDiscovered{{Bench::host(0)}});
    bench.end(bench.at(0), ExitStatus::exited(1));
    bench.form(true);
    CHECK(bench.at(0) == survivor);
    CHECK(bench.has_said("state kept by 1 survivor"));
  }
}
