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

  TEST_CASE("and go on alone after one that fails, until the back-off is over") {
    Growing bench;
    bench.survivors_wait();
    bench.newcomers_end(ExitStatus::exited(7));
    bench.form();
    bench.all_meet();
    CHECK(bench.ranks() == 2);
    CHECK(bench.machine->restarts() == 0);
    const auto progress = bench.machine->progress();
    REQUIRE(progress.newcomers_at);
    CHECK(*progress.newcomers_at > bench.now);
    bench.pass(Deadline::newcomers);
    bench.pass(Deadline::settle);
    bench.all_ask();
    bench.form();
    CHECK(bench.ranks() == 4);
  }
}
