// Whose failure it was: of several that come together, and of those that our own signals reached.
#include "tests/unit/core/elastic_bench.h"
#include "tests/unit/core/job_bench.h"

using namespace trainrun;
using namespace trainrun::core;
using Phase = JobMachine::Phase;
using Bench = JobBench;

namespace {

// Says that its peer went away.
void lose_peer(Bench& bench, std::uint32_t id) { bench.end(id, ExitStatus::exited(1), bench.now, true); }

WorkerExited ended(std::uint32_t id, ExitStatus status, Instant at, SignalSet signalled = {}) {
  return {WorkerId{id}, std::move(status), at, milliseconds(2), {}, {}, signalled, false};
}

}  // namespace

TEST_SUITE("core.first_cause") {
  TEST_CASE("a death by a signal that was not sent is a failure, also after the others were asked to end") {
    Bench bench(2);
    bench.all_running();
    const auto t = bench.now;
    bench.tell(WorkerAborted{WorkerId{1}, 1, t, milliseconds(2), {}, true});
    REQUIRE(bench.signals(SIGTERM) == 0);  // it lost a peer: who that was may follow
    bench.tell(ended(3, ExitStatus::killed(SIGKILL, false), t + milliseconds(30)));
    CHECK(bench.signals(SIGTERM) == 1);
    bench.tell(WorkerFinished{WorkerId{3}});
    bench.end(1, ExitStatus::exited(1), bench.now, true);
    bench.tell(ended(2, ExitStatus::killed(SIGTERM, false), bench.now));  // not by us
    bench.tell(WorkerFinished{WorkerId{2}});
    bench.end(4, ExitStatus::killed(SIGTERM, false));
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == 137);
    CHECK(bench.outcome->cause->rank == Rank{2});
    CHECK(bench.outcome->others.terminated == 1);
    CHECK(bench.outcome->others.failed == 2);
    REQUIRE(bench.outcome->also_failed.size() == 2);
    CHECK(bench.outcome->also_failed[0].rank == Rank{0});
    CHECK(bench.outcome->also_failed[1].rank == Rank{1});
  }

  TEST_CASE("a rank that exits before the signal reaches its host has failed, whatever the clocks say") {
    Bench bench(2);
    bench.all_running();
    bench.end(1, ExitStatus::exited(5), bench.now);
    bench.tell(ended(3, ExitStatus::exited(6), bench.now + seconds(1)));
    bench.tell(WorkerFinished{WorkerId{3}});
    for (const std::uint32_t id : {2u, 4u}) bench.end(id, ExitStatus::exited(9));
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == 5);
    CHECK(bench.outcome->others.failed == 1);
    CHECK(bench.outcome->others.terminated == 2);
  }

  TEST_CASE("SIGKILL and SIGSEGV come before an exit that peers were quicker with, but not before any") {
    for (const auto& [late, code] : std::map<int, int>{{100, 139}, {2000, 1}}) {
      Bench bench(2);
      bench.all_running();
      const auto t = bench.now;
      bench.end(1, ExitStatus::exited(1), t);
      bench.tell(ended(4, ExitStatus::killed(SIGSEGV, true), t + milliseconds(late)));
      bench.tell(WorkerFinished{WorkerId{4}});
      for (const std::uint32_t id : {2u, 3u}) bench.end(id, ExitStatus::killed(SIGTERM, false));
      bench.all_stopped();
      REQUIRE(bench.outcome);
      CHECK(bench.outcome->exit_code == code);
    }
  }

  TEST_CASE("one that crashes because it was asked to end is no cause, but is told of") {
    Bench bench(1);
    bench.all_running();
    bench.end(1, ExitStatus::exited(3), bench.now);
    bench.end(2, ExitStatus::killed(SIGSEGV, false), bench.now);
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == 3);
    CHECK(bench.outcome->others.failed == 1);
  }

  TEST_CASE("a rank that lost a peer is blamed when nobody fails by himself within two seconds") {
    Bench bench(2);
    bench.all_running();
    lose_peer(bench, 2);
    CHECK(bench.phase() == Phase::running);
    CHECK(bench.armed.at(Deadline::cause) <= bench.now + seconds(2));
    SUBCASE("it is the cause then") {
      lose_peer(bench, 3);
      bench.pass(Deadline::cause);
      CHECK(bench.signals(SIGTERM) == 1);
      for (const std::uint32_t id : {1u, 4u}) bench.end(id, ExitStatus::killed(SIGTERM, false));
      bench.all_stopped();
      REQUIRE(bench.outcome);
      CHECK(bench.outcome->cause->rank == Rank{1});
    }
    SUBCASE("one that fails with other words ends the wait") {
      bench.end(4, ExitStatus::exited(7), bench.now);
      CHECK(bench.signals(SIGTERM) == 1);
      for (const std::uint32_t id : {1u, 3u}) bench.end(id, ExitStatus::killed(SIGTERM, false));
      bench.all_stopped();
      REQUIRE(bench.outcome);
      CHECK(bench.outcome->exit_code == 7);
    }
    SUBCASE("nobody is waited for when all have ended") {
      for (const std::uint32_t id : {1u, 3u}) lose_peer(bench, id);
      bench.end(4, ExitStatus::exited(0));
      bench.all_stopped();
      REQUIRE(bench.outcome);
      CHECK(bench.outcome->exit_code == 1);
      CHECK(bench.outcome->others.failed == 2);
      CHECK(bench.outcome->others.finished == 1);
    }
    SUBCASE("a lost host is the cause") {
      bench.tell(HostLost{HostIndex{1}, "no answer for 10.0 s"});
      bench.end(1, ExitStatus::killed(SIGTERM, false));
      bench.all_stopped();
      REQUIRE(bench.outcome);
      CHECK(bench.outcome->kind == Outcome::Kind::host_lost);
    }
    SUBCASE("what it printed last may say that it was not so") {
      bench.tell(WorkerExited{WorkerId{1}, ExitStatus::exited(4), bench.now, {}, {}, {}, {}, true});
      bench.tell(WorkerFinished{WorkerId{1}, false});
      CHECK(bench.signals(SIGTERM) == 1);
    }
  }

  TEST_CASE("the time limit does not hide a failure that waits for its cause") {
    Bench bench(2, [](JobSpec& spec) { spec.timeout = seconds(1); });
    bench.all_running();
    lose_peer(bench, 2);
    bench.pass(Deadline::job);
    for (const std::uint32_t id : {1u, 3u, 4u}) bench.end(id, ExitStatus::killed(SIGTERM, false));
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->kind == Outcome::Kind::worker_failed);
  }

  TEST_CASE("peers are told the same rank and the same end") {
    Bench bench(2);
    bench.all_running();
    lose_peer(bench, 4);
    bench.end(1, ExitStatus::exited(3), bench.now);
    std::optional<EndGeneration> end;
    for (const auto& action : bench.actions)
      if (const auto* it = std::get_if<EndGeneration>(&action)) end = *it;
    REQUIRE(end);
    CHECK(end->culprit == Rank{0});
    CHECK(output::reason_for_members(*end) == "exited with code 3");
  }

  TEST_CASE("a world that starts anew names the rank that failed by itself") {
    ElasticBench bench(2);
    bench.all_running();
    bench.end(bench.at(1), ExitStatus::exited(1), true);
    CHECK(bench.phase() == Phase::running);
    bench.end(bench.at(3), ExitStatus::exited(7));
    CHECK(bench.has_said("rank 3 on gpu1 exited with code 7; restarting all ranks (restart 1 of"));
    bench.drained();
    bench.form();
    CHECK(bench.machine->restarts() == 1);
  }

  TEST_CASE("a planned change does not come before a failure that waits for its cause") {
    ElasticBench bench(2);
    bench.all_running();
    bench.end(bench.at(1), ExitStatus::exited(1), true);
    bench.tell(RestartWorld{});
    CHECK(bench.machine->restarts() == 1);
    CHECK(bench.has_said("rank 1 on gpu0 exited with code 1; restarting all ranks"));
  }

  TEST_CASE(
      "a rank that a batch system ended before us was ended by that signal, when the user says so too") {
    Bench bench(2);
    bench.all_running();
    bench.tell(ended(1, ExitStatus::killed(SIGTERM, false), bench.now));
    bench.tell(UserSignal{SIGTERM});
    bench.tell(WorkerFinished{WorkerId{1}});
    for (const std::uint32_t id : {2u, 3u, 4u}) bench.end(id, ExitStatus::killed(SIGTERM, false));
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == 143);
    CHECK(bench.outcome->others.terminated == 4);
  }

  TEST_CASE("words of a lost peer, as programs print them") {
    for (const auto* line :
         {"RuntimeError: [./gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:33153",
          "torch.distributed.DistBackendError: NCCL communicator was aborted on rank 3.",
          "trainrun.Aborted: allreduce(...): barrier 'comm/trouble' cannot be complete: rank 0 on vm has "
          "left",
          "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting "
          "prematurely.",
          "MPIDI_OFI_send_handler(689): Communication error with rank 2",
          "PMIx_Fence: PARTIAL SUCCESS",  // a rank of this host went away in it
          "connect(10.77.0.3:51977) failed: Connection refused"})
      CHECK(sounds_like_lost_peer({"usage", line}));
    for (const auto* line : {"ValueError: loss is NaN", "application called MPI_Abort(MPI_COMM_WORLD, 7)",
                             "OSError: [Errno 28] No space left on device", ""})
      CHECK_FALSE(sounds_like_lost_peer({line}));
  }
}
