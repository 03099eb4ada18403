// Changes of an elastic job that are no failures: hosts that come and go, what the user asks for, worlds that
// hang.
#include <random>

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

TEST_SUITE("core.elastic_change") {
  TEST_CASE("a host that is found joins after the settle time, and nobody is blamed") {
    Bench bench(2, OnFailure::restart_world, discovers);
    bench.all_running();
    bench.tell(HostsDiscovered{{Bench::host(0), Bench::host(1), Bench::host(2)}});
    CHECK(bench.names[HostIndex{2}] == "gpu2");
    bench.ready(2);
    CHECK(bench.phase() == Phase::running);
    bench.pass(Deadline::settle);
    bench.drained();
    bench.form();
    CHECK(bench.ranks() == 6);
    CHECK(bench.machine->restarts() == 0);
  }

  TEST_CASE("a change that is undone within the settle time causes nothing") {
    Bench bench(2, OnFailure::restart_world, discovers);
    bench.all_running();
    bench.tell(HostsDiscovered{{Bench::host(0)}});
    CHECK(bench.armed.contains(Deadline::settle));
    bench.tell(HostsDiscovered{{Bench::host(0), Bench::host(1)}});
    CHECK_FALSE(bench.armed.contains(Deadline::settle));
    CHECK(bench.phase() == Phase::running);
  }

  TEST_CASE("a discovery that finds nothing does not end a world that nobody else could hold") {
    Bench bench(2, OnFailure::restart_world, discovers);
    bench.all_running();
    bench.tell(HostsDiscovered{});
    CHECK_FALSE(bench.armed.contains(Deadline::settle));
    CHECK(bench.phase() == Phase::running);
    CHECK(bench.signals(SIGTERM) == 0);
  }

  TEST_CASE("a host that leaves by its own word is no failure, and the world goes on without it") {
    Bench bench(2);
    bench.all_running();
    bench.tell(HostLeaving{HostIndex{1}, "SIGTERM"});
    bench.drained();
    bench.form();
    CHECK(bench.ranks() == 2);
    CHECK(bench.machine->restarts() == 0);
    CHECK(bench.count<StopHost>([](const auto& it) { return it.host == HostIndex{1}; }) == 1);
  }

  TEST_CASE("in place: those who were told to leave may end as they like, and the others go on at once") {
    Bench bench(2, OnFailure::in_place);
    bench.all_running(true);
    bench.tell(HostLeaving{HostIndex{0}, "preempted"});
    CHECK(bench.count<Announce>([](const auto& it) {
      return it.leaving.size() == 2 && it.hosts_leave && !it.hosts_come;
    }) == 1);
    const auto stays = bench.at(2);
    bench.end(bench.at(0), ExitStatus::exited(0));
    REQUIRE(bench.port);
    bench.form(true);
    CHECK(bench.at(0) == stays);
    CHECK(bench.seats() == "1.0 1.1");
    CHECK(bench.count<Dismiss>() == 1);
    CHECK(bench.machine->restarts() == 0);
  }

  TEST_CASE("in place: who does not leave within the grace is ended") {
    Bench bench(2, OnFailure::in_place);
    bench.all_running(true);
    bench.tell(HostLeaving{HostIndex{0}, "preempted"});
    bench.pass(Deadline::leave);
    CHECK(bench.signals(SIGKILL) == 1);
    for (std::uint32_t rank : {0u, 1u}) bench.end(bench.at(rank), ExitStatus::killed(SIGKILL, false));
    bench.form(true);
    CHECK(bench.seats() == "1.0 1.1");
    CHECK(bench.machine->restarts() == 0);
  }

  TEST_CASE("a dismissed member that stays is ended, even when a failure comes in between") {
    Bench bench(2, OnFailure::in_place, discovers);
    bench.all_running(true);
    bench.tell(HostsDiscovered{{Bench::host(1)}});
    bench.pass(Deadline::settle);
    for (std::uint32_t rank = 0; rank < 4; ++rank) bench.tell(MemberWaits{Generation{1}, bench.at(rank)});
    const auto dismissed = bench.at(0);
    bench.form(true);
    REQUIRE(bench.count<Dismiss>() == 2);
    bench.end(bench.at(1), ExitStatus::exited(1));
    bench.form(true);
    bench.pass(Deadline::leave);
    CHECK(bench.count<SignalWorkers>([&](const auto& it) {
      return it.number == SIGKILL && std::count(it.workers.begin(), it.workers.end(), dismissed) == 1;
    }) == 1);
  }

  // By simulation: the drain disarmed the deadline after SIGKILL, and the host was given up after a grace of
  // 2 s.
  TEST_CASE("a dismissed member that got SIGKILL has its time, also when a failure comes in between") {
    Bench bench(2, OnFailure::in_place, [](JobSpec& spec) {
      discovers(spec);
      spec.grace = seconds(2);
    });
    bench.all_running(true);
    bench.tell(HostsDiscovered{{Bench::host(1)}});
    bench.pass(Deadline::settle);
    for (std::uint32_t rank = 0; rank < 4; ++rank) bench.tell(MemberWaits{Generation{1}, bench.at(rank)});
    bench.form(true);
    bench.pass(Deadline::leave);
    REQUIRE(bench.signals(SIGKILL) == 1);
    const auto killed = bench.now;
    bench.end(bench.at(1), ExitStatus::exited(1));
    bench.form(true);
    bench.pass(Deadline::leave);
    CHECK(bench.count<AbandonHost>() == 1);
    CHECK(bench.now - killed >= seconds(5));
  }

  // By simulation: it went on with the next event alone, as much as 5 s later.
  TEST_CASE("a drain goes on when the last that lives is one that was dismissed") {
    Bench bench(2, OnFailure::in_place, discovers);
    bench.all_running(true);
    bench.tell(HostsDiscovered{{Bench::host(1)}});
    bench.pass(Deadline::settle);
    for (std::uint32_t rank = 0; rank < 4; ++rank) bench.tell(MemberWaits{Generation{1}, bench.at(rank)});
    const std::vector<WorkerId> dismissed{bench.at(0), bench.at(1)};
    bench.form(true);
    bench.tell(RestartWorld{});
    for (const std::uint32_t rank : {0u, 1u}) bench.end(bench.at(rank), ExitStatus::killed(SIGTERM, false));
    CHECK(bench.sweeps.empty());
    for (const auto worker : dismissed)
      bench.tell(WorkerExited{worker, ExitStatus::killed(SIGTERM, false), bench.now, {}});
    CHECK(bench.sweeps.size() == 2);
  }

  TEST_CASE("a stopped rank's slot stays empty") {
    Bench bench(2);
    bench.all_running();
    bench.tell(StopWorker{Rank{3}});
    bench.drained();
    bench.form();
    CHECK(bench.ranks() == 3);
    CHECK(bench.machine->restarts() == 0);
  }

  TEST_CASE("the user restarts one rank in place, or the world, without a charge") {
    Bench bench(2, OnFailure::in_place, Bench::needs_all);
    bench.all_running(true);
    bench.tell(RestartWorker{Rank{2}});
    CHECK(bench.count<SignalWorkers>([](const auto& it) { return it.workers.size() == 1; }) == 1);
    bench.end(bench.at(2), ExitStatus::killed(SIGKILL, false));
    bench.form(true);
    CHECK(bench.ranks() == 4);
    bench.tell(RestartWorld{});
    bench.drained();
    bench.form(true);
    CHECK(bench.count<StartWorker>() == 9);
    CHECK(bench.machine->restarts() == 0);
  }

  TEST_CASE("an inspection of one generation ends nobody of the next") {
    Bench bench(2, OnFailure::in_place);
    bench.all_running(true);
    bench.tell(WorldSilent{seconds(30)});
    bench.end(bench.at(0), ExitStatus::exited(1));
    bench.form(true);
    for (std::uint32_t i = 0; i < 2; ++i) bench.tell(InspectionDone{HostIndex{i}});
    CHECK_FALSE(bench.armed.contains(Deadline::inspect));
    CHECK(bench.phase() == Phase::running);
    CHECK(bench.generation() == 2);
  }

  TEST_CASE("a sign of life while the ranks are looked at: the job goes on, and may fall silent again") {
    Bench bench(2, OnFailure::restart_world);
    bench.all_running();
    bench.tell(WorldSilent{seconds(30)});
    bench.tell(WorldAlive{});
    CHECK(bench.has_said("the job goes on"));
    CHECK_FALSE(bench.armed.contains(Deadline::inspect));
    for (std::uint32_t i = 0; i < 2; ++i) bench.tell(InspectionDone{HostIndex{i}});
    CHECK(bench.phase() == Phase::running);
    bench.tell(WorldSilent{seconds(30)});
    for (std::uint32_t i = 0; i < 2; ++i) bench.tell(InspectionDone{HostIndex{i}});
    CHECK(bench.phase() == Phase::draining);
  }

  TEST_CASE("the only host is removed while it is dialled: the job says that no host is there") {
    Bench bench(1);
    bench.tell(RemoveHost{"gpu0"});
    bench.ready(0);
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == 69);
  }

  TEST_CASE(
      "the only host leaves by its own word: the job waits for its return, not less than the longest rest") {
    Bench bench(1);
    bench.all_running();
    bench.tell(HostLeaving{HostIndex{0}, "preempted"});
    bench.drained();
    bench.all_stopped();
    CHECK(bench.phase() == Phase::cooling);
    const auto left = bench.now;
    bench.pass(Deadline::hosts);
    CHECK(bench.now - left >= bench.spec.elastic.cooldown_max);
    bench.ready(0);
    bench.form();
    CHECK(bench.ranks() == 2);
  }

  TEST_CASE("in place: members on a host that leaves are dismissed though no world can form yet") {
    Bench bench(2, OnFailure::in_place, [](JobSpec& spec) { spec.elastic.min_np = 4; });
    bench.all_running(true);
    bench.tell(HostLeaving{HostIndex{1}, "preempted"});
    for (std::uint32_t rank = 0; rank < 4; ++rank) bench.tell(MemberWaits{Generation{1}, bench.at(rank)});
    CHECK(bench.phase() == Phase::cooling);
    CHECK(bench.count<Dismiss>() == 2);
    for (std::uint32_t rank : {2u, 3u}) bench.end(bench.at(rank), ExitStatus::exited(0));
    CHECK(bench.count<StopHost>() == 1);
  }

  TEST_CASE("a host that is removed while the port is reserved gets nobody") {
    Bench bench(3);
    for (std::uint32_t i = 0; i < 3; ++i) bench.ready(i);
    bench.tell(RemoveHost{"gpu2"});
    bench.form();
    CHECK(bench.seats() == "0.0 0.1 1.0 1.1");
    CHECK(bench.count<StopHost>() == 1);
  }

  TEST_CASE(
      "a world that starts anew waits for the slot of one that was dismissed, not for its last output") {
    Bench bench(1, OnFailure::in_place, [](JobSpec& spec) { spec.programs[0].np = 2; });
    bench.all_running(true);
    bench.tell(RemoveHost{"gpu0"});
    bench.tell(WorkerExited{bench.at(0), ExitStatus::exited(0), bench.now, {}});
    bench.tell(WorkerFinished{bench.at(0)});
    REQUIRE(bench.phase() == Phase::cooling);
    bench.tell(AddHosts{{Bench::host(0)}});
    CHECK_FALSE(bench.port);
    bench.tell(WorkerExited{bench.at(1), ExitStatus::exited(0), bench.now, {}});
    CHECK(bench.port);
  }

  TEST_CASE("survivors on hosts that discovery lost keep their state when nobody else has it") {
    Bench bench(2, OnFailure::in_place, [](JobSpec& spec) {
      discovers(spec);
      Bench::needs_all(spec);
    });
    bench.all_running(true);
    bench.tell(HostsDiscovered{{Bench::host(2), Bench::host(3)}});
    bench.ready(2);
    bench.ready(3);
    const auto survivor = bench.at(1);
    bench.end(bench.at(0), ExitStatus::exited(1));
    bench.form(true);
    CHECK(bench.at(0) == survivor);
    CHECK(bench.ranks() == 4);
  }

  TEST_CASE("members that wait for a place after a world that never met get one") {
    Bench bench(2, OnFailure::automatic);
    bench.all_running();
    for (std::uint32_t rank : {0u, 1u, 2u}) bench.tell(MemberJoined{Generation{1}, Rank{rank}});
    bench.end(bench.at(3), ExitStatus::exited(0));
    bench.tell(WorldBroken{Generation{1}, "rank 3 was lost", {Rank{3}}});
    for (std::uint32_t rank : {0u, 1u, 2u}) bench.tell(MemberWaits{Generation{1}, bench.at(rank)});
    bench.form(true);
    CHECK(bench.ranks() == 3);
    CHECK(bench.machine->restarts() == 1);
  }

  TEST_CASE("every event in every phase of an elastic job keeps the invariants, and the end comes once") {
    for (unsigned seed = 1; seed <= 400; ++seed) {
      std::mt19937 random(seed);
      const auto pick = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
      Bench bench(2,
                  std::vector{OnFailure::restart_world, OnFailure::in_place, OnFailure::automatic}[seed % 3],
                  [](JobSpec& spec) {
                    discovers(spec);
                    spec.timeout = seconds(10'000);
                  });
      INFO("seed ", seed);
      bool over = false;
      for (int i = 0; i < 120; ++i) {
        const HostIndex host{pick(2)};
        const auto views = bench.machine->workers();
        const auto worker =
            views.empty() ? WorkerId{1} : views[pick(static_cast<std::uint32_t>(views.size()))].worker;
        const auto generation = Generation{bench.machine->progress().generation};
        const Rank rank{pick(4)};
        std::vector<JobEvent> events{
            HostReady{host},
            HostReady{host},
            PortReserved{generation},
            PortReserved{generation},
            WorkerStarted{worker, 1},
            WorkerStarted{worker, 1},
            WorkerStarted{worker, 1},
            WorkerExited{worker, ExitStatus::exited(static_cast<int>(pick(2))), bench.now, {}},
            WorkerFinished{worker, pick(2) == 0},
            WorkerFinished{worker, false}};
        switch (pick(20)) {
          case 0:
            events = {HostFailed{host, {Code::unreachable, "x"}}};
            break;
          case 1:
            events = {HostLost{host, "gone"}};
            break;
          case 2:
            events = {PortRefused{generation, {Code::try_again, "x"}}};
            break;
          case 3:
            events = {HostStopped{host}};
            break;
          case 4:
            events = {HostSwept{host, generation}};
            break;
          case 5:
            events = {HostLeaving{host, "x"}};
            break;
          case 6:
            events = {
                HostsDiscovered{{Bench::host(static_cast<int>(pick(2)), 1 + static_cast<int>(pick(2)))}}};
            break;
          case 7:
            events = {HostsDiscovered{{Bench::host(0), Bench::host(1)}}};
            break;
          case 8:
            events = {MemberJoined{generation, rank}, WorldJoined{generation, pick(4) > 0}};
            break;
          case 9:
            events = {WorldBroken{generation, "x", {rank}}};
            break;
          case 10:
            events = {MemberWaits{generation, worker}};
            break;
          case 11:
            events = {WorldSilent{seconds(9)}, InspectionDone{host}, WorkerInspected{worker, true, "x"}};
            if (pick(4) == 0) events.insert(events.begin() + 1, WorldAlive{});
            break;
          case 12:
            events = {RemoveHost{"gpu0"}, AddHosts{{Bench::host(0)}}};
            break;
          case 13:
            events = {RestartWorld{}, RestartWorker{rank}, StopWorker{rank}};
            break;
          case 14:
            if (pick(10) == 0) events = {UserSignal{SIGINT}, OutputClosed{}};
            break;
          case 15:
          case 16:
            if (!bench.armed.empty()) {
              const auto deadline =
                  std::next(bench.armed.begin(), pick(static_cast<std::uint32_t>(bench.armed.size())))->first;
              bench.armed.erase(deadline);
              events = {DeadlinePassed{deadline}};
            }
            break;
          default:
            break;
        }
        const auto finishes = bench.count<Finish>();
        bench.tell(events[pick(static_cast<std::uint32_t>(events.size()))]);
        if (over) CHECK(bench.count<Finish>() == finishes);
        over = over || bench.count<Finish>() > finishes;
        CHECK((bench.phase() == Phase::done) == over);
      }
    }
  }
}
