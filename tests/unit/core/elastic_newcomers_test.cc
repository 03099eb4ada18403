// In place: ranks that are started while the world goes on without them.
#include "tests/unit/core/elastic_bench.h"

using namespace trainrun;
using namespace trainrun::core;
using Phase = JobMachine::Phase;
using Bench = ElasticBench;

namespace {

// Of four ranks, of which two suffice, rank 3 has died, and the world of three has met.
struct Three : Bench {
  explicit Three(const std::function<void(JobSpec&)>& change = [](JobSpec&) {})
      : Bench(2, OnFailure::in_place, change) {
    all_running(true);
    end(at(3), ExitStatus::exited(1));
    tell(PortReserved{*std::exchange(port, std::nullopt)});
    meet();
  }
  void starts() {
    REQUIRE(ordered.size() == 1);
    newcomer = ordered.front();
    ordered.clear();
    tell(WorkerStarted{newcomer, 77});
  }
  void all_ask() {
    for (std::uint32_t rank = 0; rank < ranks(); ++rank)
      tell(MemberWaits{Generation{generation()}, at(rank)});
  }
  WorkerId newcomer{};
};

}  // namespace

TEST_SUITE("core.elastic newcomers") {
  TEST_CASE("survivors that are enough go on at once, and the newcomer has its place when it asks") {
    Three bench;
    CHECK(bench.phase() == Phase::running);
    CHECK(bench.ranks() == 3);
    CHECK(bench.has_said("generation 2: 3 ranks on 2 hosts"));
    CHECK(bench.has_said("starting rank 3 on gpu1, which joins when it is ready"));
    const auto shown = [&bench] {
      const auto all = bench.machine->newcomers();
      return all.empty() ? std::string{} : state_of(all.front());
    };
    CHECK(shown() == "starting");
    bench.starts();
    CHECK(shown() == "loading");
    CHECK(bench.count<Announce>() == 0);
    CHECK(bench.count<StartWorker>([](const auto& it) { return it.generation.value == 0; }) == 1);
    bench.tell(MemberWaits{Generation{0}, bench.newcomer});
    CHECK(shown() == "ready");
    CHECK(bench.count<Announce>([](const auto& it) { return it.hosts_come && !it.hosts_leave; }) == 1);
    bench.all_ask();
    bench.form(true);
    CHECK(bench.ranks() == 4);
    CHECK(bench.at(3) == bench.newcomer);
    CHECK(shown().empty());
    CHECK(bench.has_said(
        "generation 3: 4 ranks on 2 hosts; rank 3 on gpu1 is ready; state kept by 3 survivors"));
    CHECK(bench.machine->restarts() == 1);
  }

  TEST_CASE("in place: members are told that hosts come, and the world grows when all of them ask") {
    Bench bench(2, OnFailure::in_place, [](JobSpec& spec) {
      spec.elastic.discovery.kind = DiscoveryKind::script;
      spec.elastic.max_np = 8;
    });
    bench.all_running(true);
    bench.tell(HostsDiscovered{{Bench::host(0), Bench::host(1), Bench::host(2)}});
    bench.ready(2);
    REQUIRE(bench.ordered.size() == 2);
    const auto newcomers = bench.ordered;
    for (const auto one : newcomers) bench.tell(WorkerStarted{one, one.value});
    CHECK(bench.count<Announce>() == 0);  // they load
    CHECK_FALSE(bench.armed.contains(Deadline::settle));
    bench.tell(MemberWaits{Generation{0}, newcomers[0]});
    CHECK(bench.armed.contains(Deadline::settle));  // the other may follow soon
    CHECK(bench.count<Announce>() == 0);
    bench.tell(MemberWaits{Generation{0}, newcomers[1]});
    bench.ordered.clear();
    CHECK(bench.count<Announce>([](const auto& it) { return it.hosts_come && !it.hosts_leave; }) == 1);
    for (std::uint32_t rank = 0; rank < 4; ++rank) bench.tell(MemberWaits{Generation{1}, bench.at(rank)});
    bench.form(true);
    CHECK(bench.seats() == "0.0 0.1 1.0 1.1 2.0 2.1");
    CHECK(bench.count<StartWorker>() == 6);
    CHECK(bench.machine->restarts() == 0);
  }

  TEST_CASE("survivors that are too few wait for a newcomer, also for one that was started before") {
    Three bench([](JobSpec& spec) { spec.elastic.min_np = 3; });
    bench.starts();
    bench.end(bench.at(2), ExitStatus::exited(1));
    if (bench.armed.contains(Deadline::backoff)) bench.pass(Deadline::backoff);
    bench.tell(PortReserved{*std::exchange(bench.port, std::nullopt)});
    CHECK(bench.ranks() == 3);
    CHECK(bench.at(2) == bench.newcomer);
    CHECK(bench.ordered.size() == 1);  // the fourth comes later
    CHECK(bench.count<PlanNewcomers>() == 2);
  }

  TEST_CASE("a newcomer that fails costs nothing but time, more each time, and nobody else waits") {
    Three bench([](JobSpec& spec) { spec.elastic.limit.count = 1; });  // which rank 3 has used up
    bench.starts();
    bench.end(bench.newcomer, ExitStatus::exited(9));
    const auto sweeps_it = [&](const Sweep& it) { return it.workers == std::vector{bench.newcomer}; };
    CHECK(bench.count<Sweep>(sweeps_it) == 1);  // of what it may have left
    CHECK(bench.phase() == Phase::running);
    CHECK(
        bench.has_said("rank 3 on gpu1 exited with code 9 before it had joined; 3 ranks go on without it; "
                       "starting it again in 1.0 s\n"));
    CHECK(bench.ordered.empty());
    bench.pass(Deadline::newcomers);
    bench.starts();
    CHECK(bench.machine->restarts() == 1);
    SUBCASE("until one has joined") {
      bench.tell(MemberWaits{Generation{0}, bench.newcomer});
      bench.all_ask();
      bench.form(true);
      CHECK(bench.ranks() == 4);
      CHECK_FALSE(bench.machine->progress().newcomers_at);
    }
    SUBCASE("and those that go on may finish") {
      bench.end(bench.newcomer, ExitStatus::exited(9));
      CHECK(bench.ordered.empty());
      CHECK(bench.phase() == Phase::running);
      bench.finish_all();
      bench.all_stopped();
      REQUIRE(bench.outcome);
      CHECK(bench.outcome->kind == Outcome::Kind::success);
    }
  }

  TEST_CASE("one that finishes costs nothing, and no other follows until hosts come") {
    Three bench;
    bench.starts();
    bench.end(bench.newcomer, ExitStatus::exited(0));
    INFO(bench.said);
    CHECK(bench.has_said("rank 3 on gpu1 finished before it had joined; 3 ranks go on without it\n"));
    CHECK(bench.machine->restarts() == 1);
    CHECK(bench.ordered.empty());
    CHECK(bench.phase() == Phase::running);
    bench.tell(AddHosts{{Bench::host(2)}});
    bench.ready(2);
    CHECK(bench.ordered.size() == 1);
  }

  TEST_CASE("newcomers that fail together slow down what follows once, and blame their host once") {
    Three bench([](JobSpec& spec) {
      spec.elastic.max_np = 7;
      spec.elastic.limit.count = 20;
    });
    bench.tell(AddHosts{{Bench::host(2, 3)}});
    bench.ready(2);
    REQUIRE(bench.ordered.size() == 4);
    const auto some = std::exchange(bench.ordered, {});
    for (const auto one : some) bench.tell(WorkerStarted{one, one.value});
    for (const auto one : some) bench.end(one, ExitStatus::exited(7));
    INFO(bench.said);
    CHECK(bench.machine->restarts() == 1);
    CHECK(bench.has_said("starting it again in 1.0 s\n"));
    CHECK(bench.has_said("starting it again in 0.98 s\n"));
    CHECK_FALSE(bench.has_said("starting it again in 2.0 s"));
    CHECK_FALSE(bench.has_said("cools down"));
  }

  TEST_CASE("after the rest of their host newcomers are started there again") {
    Three bench([](JobSpec& spec) { spec.elastic.limit.count = 20; });
    bench.starts();
    for (int i = 0; i < 3; ++i) {
      bench.end(bench.newcomer, ExitStatus::exited(7));
      if (bench.has_said("cools down")) break;
      if (bench.armed.contains(Deadline::newcomers)) bench.pass(Deadline::newcomers);
      bench.starts();
    }
    CHECK(bench.has_said("before it had joined; 3 ranks go on without it\ngpu1 cools down"));
    CHECK(bench.ordered.empty());
    bench.pass(Deadline::hosts);
    CHECK(bench.ordered.size() == 1);
  }

  TEST_CASE("survivors that are enough do not wait for the back-off of others") {
    Three bench;
    bench.end(bench.at(2), ExitStatus::exited(1));
    CHECK(bench.has_said("waiting 1.0 s before the next start; the others do not wait"));
    CHECK_FALSE(bench.armed.contains(Deadline::backoff));
    bench.ordered.clear();
    bench.tell(PortReserved{*std::exchange(bench.port, std::nullopt)});
    bench.meet();
    CHECK(bench.ranks() == 2);
    CHECK(bench.ordered.empty());
    bench.pass(Deadline::newcomers);
    CHECK(bench.ordered.size() == 1);
  }

  TEST_CASE("when they fail as well, before they have met, all wait for the rest of it") {
    Three bench([](JobSpec& spec) { spec.elastic.min_np = 2; });
    bench.end(bench.at(2), ExitStatus::exited(1));
    CHECK_FALSE(bench.armed.contains(Deadline::backoff));
    const auto until = bench.now + seconds(1);
    bench.tell(PortReserved{*std::exchange(bench.port, std::nullopt)});
    bench.now += milliseconds(100);
    bench.end(bench.at(0), ExitStatus::exited(1));
    INFO(bench.said);
    CHECK(bench.has_said("waiting 0.87 s before the next start\n"));
    REQUIRE(bench.armed.contains(Deadline::backoff));
    CHECK(bench.armed[Deadline::backoff] <= until);
    CHECK_FALSE(bench.port);
  }

  TEST_CASE("nor do they when the other was found to hang") {
    Three bench;
    bench.tell(WorldSilent{seconds(30)});
    bench.tell(WorkerInspected{bench.at(2), true, "state T"});
    for (std::uint32_t i = 0; i < 2; ++i) bench.tell(InspectionDone{HostIndex{i}});
    bench.end(bench.at(2), ExitStatus::killed(SIGKILL, false));
    CHECK(bench.has_said("the others do not wait"));
    CHECK_FALSE(bench.armed.contains(Deadline::backoff));
  }

  TEST_CASE("one that loads is told by a signal to go, and each has its own grace") {
    Three bench([](JobSpec& spec) {
      spec.elastic.max_np = 6;
      spec.grace = seconds(10);
    });
    bench.starts();
    bench.tell(AddHosts{{Bench::host(2)}});
    bench.ready(2);
    const auto others = std::exchange(bench.ordered, {});
    REQUIRE(others.size() == 2);
    for (const auto one : others) bench.tell(WorkerStarted{one, one.value});
    bench.tell(RemoveHost{"gpu2"});
    CHECK(bench.has_said("ending rank 4 on gpu2 and rank 5 on gpu2, which had not joined: no slot is left"));
    for (const auto one : others) CHECK(bench.signalled[one].contains(SIGTERM));
    const auto first = bench.armed.at(Deadline::leave);
    bench.now += seconds(9);
    bench.end(bench.at(0), ExitStatus::exited(0));  // the program ends
    CHECK(bench.has_said("ending rank 3 on gpu1, which had not joined: other ranks have finished"));
    CHECK(bench.armed.at(Deadline::leave) == first);
    bench.pass(Deadline::leave);
    for (const auto one : others) CHECK(bench.signalled[one].contains(SIGKILL));
    CHECK(bench.signalled[bench.newcomer].contains(SIGTERM));
    CHECK_FALSE(bench.signalled[bench.newcomer].contains(SIGKILL));
  }

  TEST_CASE("a second ^C ends those that load, and does not leave them") {
    Three bench;
    bench.starts();
    bench.tell(UserSignal{SIGINT});
    bench.drained();
    REQUIRE(bench.phase() == Phase::closing);
    bench.now += seconds(2);
    bench.tell(UserSignal{SIGINT});
    CHECK(bench.phase() == Phase::closing);
    CHECK(bench.signalled[bench.newcomer].contains(SIGKILL));
    bench.all_stopped();
    CHECK(bench.phase() == Phase::done);
  }

  TEST_CASE("one that has no place any more may not start, and nobody is disturbed") {
    Three bench;
    bench.end(bench.at(0), ExitStatus::exited(0));  // the program ends: the newcomer, just ordered, goes
    REQUIRE(bench.ordered.size() == 1);
    bench.tell(WorkerNotStarted{bench.ordered.front(), ExitStatus::not_started(SpawnStage::exec, 11)});
    CHECK(bench.phase() == Phase::running);
    CHECK(bench.machine->restarts() == 1);
  }

  TEST_CASE("one that loads gives way when another gets its rank") {
    Three bench([](JobSpec& spec) {
      spec.programs[0].np = 5;
      spec.hosts.hosts[1].slots = 3;
      spec.elastic.limit.count = 20;
    });
    bench.starts();
    const auto loads = bench.newcomer;
    bench.end(bench.at(3), ExitStatus::exited(1));
    bench.tell(PortReserved{*std::exchange(bench.port, std::nullopt)});
    bench.meet();
    bench.pass(Deadline::newcomers);
    bench.starts();
    CHECK(bench.machine->seat_of(loads)->rank.value == 3);
    CHECK(bench.machine->seat_of(bench.newcomer)->rank.value == 4);
    bench.tell(MemberWaits{Generation{0}, bench.newcomer});
    bench.pass(Deadline::settle);
    bench.all_ask();
    bench.form(true);
    CHECK(bench.at(3) == bench.newcomer);
    CHECK(bench.machine->seat_of(loads)->rank.value == 4);
  }

  TEST_CASE("a newcomer that never asks is ended after the time that it has to load") {
    Three bench([](JobSpec& spec) { spec.start_timeout = seconds(4); });
    bench.starts();
    CHECK(bench.armed.at(Deadline::newcomers) - bench.now == seconds(40));
    bench.pass(Deadline::newcomers);
    CHECK(
        bench.has_said("rank 3 on gpu1 did not join generation 3 within 40.0 s (ten times --start-timeout)"));
    CHECK(bench.signalled[bench.newcomer].contains(SIGKILL));
    CHECK(bench.phase() == Phase::running);
    bench.end(bench.newcomer, ExitStatus::killed(SIGKILL, false));
    CHECK(bench.machine->restarts() == 1);
  }

  TEST_CASE("with the end of the program, or a restart of all, newcomers go") {
    Three bench;
    bench.starts();
    SUBCASE("a rank has finished") {
      bench.end(bench.at(0), ExitStatus::exited(0));
      CHECK(bench.count<Dismiss>([&](const auto& it) { return it.worker == bench.newcomer; }) == 1);
    }
    SUBCASE("nobody has survived") {
      bench.tell(RestartWorld{});
      bench.drained();
      CHECK_FALSE(bench.port);  // it lives
      bench.end(bench.newcomer, ExitStatus::killed(SIGTERM, false));
      for (const auto& sweep : std::exchange(bench.sweeps, {}))
        bench.tell(HostSwept{sweep.host, *sweep.generation});
      bench.form(true);
      CHECK(bench.ranks() == 4);
    }
    SUBCASE("those who survived are lost before the next world begins") {
      for (std::uint32_t rank : {0u, 1u}) bench.tell(MemberWaits{Generation{2}, bench.at(rank)});
      bench.tell(WorldBroken{Generation{2}, "they have lost each other", {}});
      REQUIRE(bench.phase() == Phase::cooling);
      bench.lose(0);
      bench.end(bench.at(2), ExitStatus::exited(1));
      CHECK(bench.count<Dismiss>([&](const auto& it) { return it.worker == bench.newcomer; }) == 1);
    }
    SUBCASE("its host goes") {
      bench.tell(HostLeaving{HostIndex{1}, "spot"});
      CHECK(bench.count<Announce>([&](const auto& it) { return it.hosts_leave; }) == 1);
      bench.all_ask();
      CHECK(bench.count<Dismiss>([&](const auto& it) { return it.worker == bench.newcomer; }) == 1);
    }
    SUBCASE("its host is lost") {
      bench.lose(1);
      if (bench.armed.contains(Deadline::backoff)) bench.pass(Deadline::backoff);
      bench.form(true);
      CHECK(bench.ranks() == 2);
      CHECK(bench.machine->restarts() == 2);  // rank 2 was there as well
    }
  }

  TEST_CASE("a healthy rank is not ended since another host rests") {
    Bench bench(2, OnFailure::in_place, [](JobSpec& spec) {
      spec.hosts.hosts[0].slots = 3;
      spec.hosts.hosts[1].slots = 3;
      spec.programs[0].np = 6;
      spec.elastic.limit.count = 100;
    });
    bench.all_running(true);
    // gpu0 fails for the third time, while one of its ranks and all of gpu1 live.
    for (int i = 0; i < 3; ++i) {
      const auto seats = bench.world.placement.seats;
      std::size_t victim = 0;
      while (seats[victim].host.value != 0 || (i == 2 && victim == 0)) ++victim;
      bench.end(bench.at(static_cast<std::uint32_t>(victim)), ExitStatus::exited(1));
      if (bench.armed.contains(Deadline::backoff)) bench.pass(Deadline::backoff);
      bench.tell(PortReserved{*std::exchange(bench.port, std::nullopt)});
      bench.meet();
      if (i == 2) break;
      if (bench.ordered.empty()) bench.pass(Deadline::newcomers);
      bench.newcomers_ask();
      for (std::uint32_t rank = 0; rank < bench.ranks(); ++rank)
        bench.tell(MemberWaits{Generation{bench.generation()}, bench.at(rank)});
      bench.form(true);
    }
    CHECK(bench.has_said("gpu0 cools down"));
    CHECK(bench.ranks() == 5);  // two of gpu0, all of gpu1
    CHECK(bench.count<Dismiss>() == 0);
  }
}
