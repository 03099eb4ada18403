// What a user is told while an elastic job waits, fails early and tries again, one sentence each.
#include "tests/unit/core/elastic_bench.h"

using namespace trainrun;
using namespace trainrun::core;
using Phase = JobMachine::Phase;
using Bench = ElasticBench;

namespace {

const Error no_route{Code::unreachable, "gpu1: no route to host", {}};

int times(const std::string& text, const std::string& words) {
  int n = 0;
  for (auto at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_SUITE("core.elastic words") {
  TEST_CASE("a host that fails at the start is told once, when the world begins without it") {
    Bench bench(2, OnFailure::restart_world);
    bench.tell(HostFailed{HostIndex{1}, no_route});
    CHECK_FALSE(bench.has_said("no route"));
    bench.ready(0);
    bench.form();
    CHECK(bench.has_said("gpu1: no route to host; trying again"));
    bench.pass(Deadline::hosts);
    bench.tell(HostFailed{HostIndex{1}, no_route});
    CHECK(times(bench.said, "no route") == 1);
    bench.pass(Deadline::hosts);
    bench.tell(HostFailed{HostIndex{1}, {Code::unreachable, "gpu1: permission denied", {}}});
    CHECK(bench.has_said("permission denied; trying again"));
  }

  TEST_CASE("hosts that all fail at the start are told in the report alone") {
    Bench bench(2, OnFailure::restart_world);
    bench.tell(HostFailed{HostIndex{0}, no_route});
    bench.tell(HostFailed{HostIndex{1}, no_route});
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->host_errors.size() == 2);
    CHECK(bench.said.empty());
  }

  TEST_CASE("while too few hosts are there, what is done about it is told") {
    Bench bench(2, OnFailure::restart_world, [](JobSpec& spec) { spec.elastic.min_np = 4; });
    bench.all_running();
    bench.lose(1);
    bench.drained();
    REQUIRE(bench.phase() == Phase::cooling);
    CHECK(bench.has_said("waiting for hosts: 2 slots of the 4 that the smallest world needs; "));
    CHECK(bench.has_said("gpu1 is tried again in 0.95 s; giving up in 10m00s"));
  }

  TEST_CASE("a generation that never ran is named, since its number is skipped") {
    Bench bench(1, OnFailure::restart_world);
    bench.ready(0);
    bench.tell(PortReserved{*std::exchange(bench.port, std::nullopt)});
    const auto worker = bench.ordered.at(0);
    bench.tell(WorkerNotStarted{worker, ExitStatus::not_started(SpawnStage::exec, ENOENT)});
    CHECK(bench.has_said("generation 1 did not come up: rank 0 on gpu0 "));
    CHECK(bench.has_said("; all ranks start anew (restart 1 of 10"));
  }

  TEST_CASE("a refused port is tried again at the price of a restart, and the last refusal ends the job") {
    Bench bench(1, OnFailure::restart_world, [](JobSpec& spec) { spec.elastic.limit.count = 1; });
    bench.ready(0);
    const Error refused{Code::try_again,
                        "gpu0: cannot reserve a port for MASTER_PORT: Address already in use",
                        "widen --port-range"};
    bench.tell(PortRefused{*std::exchange(bench.port, std::nullopt), refused});
    CHECK(bench.has_said("MASTER_PORT: Address already in use; trying again (restart 1 of 1"));
    bench.drained();
    REQUIRE(bench.port == Generation{2});
    bench.tell(PortRefused{*std::exchange(bench.port, std::nullopt), refused});
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->kind == Outcome::Kind::port_refused);
    CHECK(bench.outcome->exit_code == 75);
    CHECK(bench.outcome->out_of_restarts);
    CHECK(bench.outcome->hint == "widen --port-range");
  }

  TEST_CASE("members that give their world up without being told pay for it") {
    Bench bench(1, OnFailure::in_place, [](JobSpec& spec) { spec.elastic.limit.count = 1; });
    bench.all_running(true);
    for (std::uint32_t rank : {0u, 1u}) bench.tell(MemberWaits{Generation{1}, bench.at(rank)});
    CHECK(bench.has_said("all ranks gave their world up; all go on together (restart 1 of 1"));
    bench.form(true);
    CHECK(bench.generation() == 2);
    for (std::uint32_t rank : {0u, 1u}) bench.tell(MemberWaits{Generation{2}, bench.at(rank)});
    bench.drained();
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->out_of_restarts);
    CHECK(bench.outcome->exit_code == 124);
  }
}
