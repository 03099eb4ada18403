// Horovod's own ranks: who comes anew has its place by its environment, so survivors wait for it in the next
// world; but not for ever, and not for a host that goes.
#include "tests/unit/core/elastic_bench.h"

using namespace trainrun;
using namespace trainrun::core;
using Phase = JobMachine::Phase;

namespace {

// Two ranks work on gpu0; gpu1 has come, and its two ranks read their data.
struct Growing : ElasticBench {
  Growing()
      : ElasticBench(1, OnFailure::in_place, [](JobSpec& job) {
          job.elastic.max_np = 4;
          job.elastic.discovery.kind = DiscoveryKind::script;
        }) {
    ready(0);
    form();
    all_meet();
    discovered({host(0), host(1)});
    ready(1);
    pass(Deadline::settle);
    all_ask();
    form();
    REQUIRE(ranks() == 4);
    said.clear();
  }
  void all_meet() {
    for (const auto& seat : world.placement.seats) tell(MemberJoined{world.placement.generation, seat.rank});
    tell(WorldJoined{world.placement.generation, true, true});
  }
  void survivors_wait() {
    for (const Rank rank : {Rank{0}, Rank{1}}) tell(MemberJoined{world.placement.generation, rank});
  }
  void all_ask() {
    for (std::uint32_t rank = 0; rank < ranks(); ++rank)
      tell(MemberWaits{Generation{generation()}, at(rank)});
  }
  void discovered(std::vector<Host> hosts) { tell(HostsDiscovered{std::move(hosts)}); }
  // The two of gpu1 are ended, and the survivors have the next world for themselves.
  void newcomers_end(ExitStatus status) {
    const auto all = machine->workers();
    for (const auto& view : all)
      if (view.seat.host == HostIndex{1}) end(view.worker, status);
  }
};

// Of Horovod's four ranks, of which `least` suffice, two have died, and two others come for them.
struct Replacing : ElasticBench {
  explicit Replacing(int least, int restarts = 100)
      : ElasticBench(2, OnFailure::automatic, [&](JobSpec& job) {
          job.elastic.min_np = least;
          job.elastic.limit.count = restarts;
          job.start_timeout = seconds(3);
        }) {
    all_running();
    tell(WorldJoined{Generation{1}, true, true});
    for (const auto rank : {1u, 2u}) end(at(rank), ExitStatus::exited(7));
    if (armed.contains(Deadline::backoff)) pass(Deadline::backoff);
    form();
    CHECK(seats() == "0.0 0.1 1.0 1.1");  // ranks of a host follow each other
  }
  void meets() { tell(WorldJoined{Generation{generation()}, true, true}); }
};

}  // namespace

TEST_SUITE("core.elastic horovod") {
  TEST_CASE("survivors wait for those that load, and are seen to") {
    Growing bench;
    bench.survivors_wait();
    std::string states;
    for (const auto& view : bench.machine->workers()) states += state_of(view) + " ";
    CHECK(states == "waiting waiting loading loading ");
    bench.all_meet();
    CHECK(bench.has_said("generation 2: 4 ranks on 2 hosts"));
    states.clear();
    for (const auto& view : bench.machine->workers()) states += state_of(view) + " ";
    CHECK(states == "running running running running ");
  }

  TEST_CASE("where all hosts are replaced, those that hold the state stay until others hold it too") {
    ElasticBench bench(1, OnFailure::in_place, [](JobSpec& job) {
      job.elastic.max_np = 4;
      job.elastic.discovery.kind = DiscoveryKind::script;
    });
    bench.all_running();
    bool horovod = true;
    SUBCASE("Horovod's ranks wait for the others") {}
    SUBCASE("those on comm go on until the others are ready") { horovod = false; }
    const auto meet = [&] {
      for (const auto& seat : bench.world.placement.seats)
        bench.tell(MemberJoined{bench.world.placement.generation, seat.rank});
      bench.tell(WorldJoined{bench.world.placement.generation, true, horovod});
    };
    meet();
    bench.tell(HostsDiscovered{{ElasticBench::host(1)}});
    bench.ready(1);
    if (!horovod) bench.newcomers_ask();
    if (bench.armed.contains(Deadline::settle)) bench.pass(Deadline::settle);
    for (const auto rank : {0u, 1u}) bench.tell(MemberWaits{Generation{1}, bench.at(rank)});
    bench.form();
    CHECK(bench.seats() == "0.0 0.1 1.0 1.1");
    meet();
    bench.pass(Deadline::settle);
    for (const auto rank : {2u, 3u}) bench.tell(MemberWaits{Generation{2}, bench.at(rank)});
    for (const auto rank : {0u, 1u}) bench.end(bench.at(rank), ExitStatus::exited(0));
    bench.form();
    CHECK(bench.seats() == "1.0 1.1");
    meet();
    CHECK_FALSE(bench.has_said("no rank survived"));
    CHECK(bench.has_said("generation 3: 2 ranks on 1 host; gpu0 left; state kept by 2 survivors"));
  }

  TEST_CASE("those that hold the state stay also where their hosts are replaced between two generations") {
    ElasticBench bench(1, OnFailure::in_place, [](JobSpec& job) {
      job.elastic.max_np = 4;
      job.elastic.min_np = 1;
      job.elastic.discovery.kind = DiscoveryKind::script;
    });
    bench.all_running(true);
    bench.end(bench.at(1), ExitStatus::exited(1));
    bench.tell(MemberWaits{Generation{1}, bench.at(0)});
    REQUIRE(bench.phase() == Phase::forming);
    bench.tell(HostsDiscovered{{ElasticBench::host(1)}});
    bench.ready(1);
    bench.form(true);
    CHECK(bench.seats() == "0.0");
    if (bench.armed.contains(Deadline::settle)) bench.pass(Deadline::settle);
    CHECK(bench.count<Announce>([](const auto& it) { return it.hosts_leave; }) == 0);
    CHECK_FALSE(bench.has_said("no rank survived"));
  }

  TEST_CASE("those that hand over the state stay, also when another host leaves by its own word") {
    ElasticBench bench(2, OnFailure::in_place, [](JobSpec& job) {
      job.elastic.max_np = 8;
      job.elastic.discovery.kind = DiscoveryKind::script;
    });
    bench.all_running(true);
    bench.tell(HostsDiscovered{{ElasticBench::host(2)}});
    bench.ready(2);
    bench.tell(HostLeaving{HostIndex{1}, "preempted"});
    CHECK(bench.count<Announce>([&](const auto& it) {
      return it.hosts_leave && it.leaving == std::vector{bench.at(2), bench.at(3)};
    }) == 1);
    bench.ordered.clear();
    for (std::uint32_t rank = 0; rank < 4; ++rank) bench.tell(MemberWaits{Generation{1}, bench.at(rank)});
    for (const auto rank : {2u, 3u}) bench.end(bench.at(rank), ExitStatus::exited(0));
    bench.form(true);
    CHECK(bench.seats().starts_with("0.0 0.1"));
    CHECK_FALSE(bench.has_said("no rank survived"));
  }

  TEST_CASE("not for those on a host that is taken from the list") {
    Growing bench;
    bench.survivors_wait();
    bench.discovered({ElasticBench::host(0)});
    CHECK(bench.phase() == Phase::draining);
    CHECK(bench.signals(SIGKILL) == 1);
    bench.newcomers_end(ExitStatus::killed(SIGKILL, false));
    bench.form();
    bench.all_meet();
    CHECK(bench.ranks() == 2);
    CHECK(bench.machine->restarts() == 0);
    CHECK(bench.has_said("generation 3: 2 ranks on 1 host; gpu1 left; state kept by 2 survivors"));
  }

  TEST_CASE("those that load cannot take another place: when one dies before they have met, all of them go") {
    Replacing bench(3);
    const auto other = bench.at(2);
    const auto survivors = {bench.at(0), bench.at(3)};
    bench.end(bench.at(1), ExitStatus::exited(7));
    CHECK(bench.signalled[other].contains(SIGKILL));
    for (const auto survivor : survivors) CHECK_FALSE(bench.signalled[survivor].contains(SIGKILL));
    bench.end(other, ExitStatus::killed(SIGKILL, false));
    if (bench.armed.contains(Deadline::backoff)) bench.pass(Deadline::backoff);
    bench.form();
    CHECK(bench.at(0) == *survivors.begin());
    CHECK(bench.at(2) != other);
  }

  TEST_CASE("after newcomers that failed the others go on alone, and try again later") {
    Replacing bench(2, 2);
    const auto survivors = {bench.at(0), bench.at(3)};
    const auto fail = [&bench] {
      const auto other = bench.at(2);
      bench.end(bench.at(1), ExitStatus::exited(7));
      bench.end(other, ExitStatus::killed(SIGKILL, false));
    };
    fail();
    CHECK(
        bench.has_said("rank 1 on gpu0 exited with code 7 before it had joined; 2 ranks go on without it; "
                       "starting it again in 1.0 s\n"));
    CHECK_FALSE(bench.armed.contains(Deadline::backoff));
    bench.form();
    CHECK(bench.seats() == "0.0 1.1");
    for (const auto one : survivors) CHECK_FALSE(bench.signalled[one].contains(SIGKILL));
    bench.meets();
    CHECK_FALSE(bench.armed.contains(Deadline::settle));
    CHECK(bench.machine->progress().newcomers_at > bench.now);
    bench.pass(Deadline::newcomers);
    bench.pass(Deadline::settle);
    CHECK(bench.count<Announce>() == 1);
    for (const std::uint32_t rank : {0u, 1u})
      bench.tell(MemberWaits{Generation{bench.generation()}, bench.at(rank)});
    bench.form();
    CHECK(bench.ranks() == 4);
    fail();
    CHECK(bench.has_said("2 ranks go on without it; starting it again in 2.0 s\n"));
    bench.form();
    bench.meets();
    CHECK(bench.ranks() == 2);
    CHECK(bench.phase() == Phase::running);
    CHECK(bench.machine->restarts() == 1);
  }

  TEST_CASE("one that never comes is tried again as late as it was waited for") {
    Replacing bench(2);
    for (const std::uint32_t rank : {0u, 3u})
      bench.tell(MemberJoined{Generation{bench.generation()}, Rank{rank}});
    for (int i = 0; i < 2; ++i) bench.pass(Deadline::join);
    CHECK(
        bench.has_said("did not join generation 3 within 30.0 s (ten times --start-timeout); 2 ranks go on "
                       "without them; starting them again in 30.0 s"));
    for (const std::uint32_t rank : {1u, 2u}) bench.end(bench.at(rank), ExitStatus::killed(SIGKILL, false));
    bench.form();
    CHECK(bench.ranks() == 2);
  }

  TEST_CASE("nor is one that fails after a long import tried again any sooner") {
    Replacing bench(2);
    bench.now += seconds(40);
    bench.end(bench.at(1), ExitStatus::exited(7));
    CHECK(bench.has_said("2 ranks go on without it; starting it again in 40.0 s\n"));
  }
}
