// What MPI programs tell the brain.
#include "elastic_bench.h"
#include "job_bench.h"

namespace trainrun::core {
namespace {

using Phase = JobMachine::Phase;

// Of a host on which the first program is of one MPI and the second of another.
std::shared_ptr<const wire::HostFacts> with_mpi(wire::MpiFact first, wire::MpiFact second,
                                                const std::string& pmix = {}) {
  auto facts = std::make_shared<wire::HostFacts>();
  facts->programs.mpi = {std::move(first), std::move(second)};
  facts->programs.pmix_library = pmix;
  return facts;
}
constexpr auto mpich = wire::MpiFamily::mpich, open_mpi = wire::MpiFamily::open_mpi;

// Two programs with two ranks each, on a host each.
struct TwoPrograms : JobBench {
  TwoPrograms()
      : JobBench(2, [](JobSpec& job) {
          job.programs = {{{"./a"}, 2, "/w", {}}, {{"./b"}, 2, "/w", {}}};
        }) {}
};

TEST_SUITE("mpi") {
  TEST_CASE("programs of two MPIs are no world: nothing starts") {
    TwoPrograms bench;
    bench.tell(HostReady{HostIndex{0}, with_mpi({open_mpi}, {})});
    bench.tell(HostReady{HostIndex{1}, with_mpi({}, {mpich})});
    CHECK(bench.count<StartWorker>() == 0);
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->kind == Outcome::Kind::mpi_mixed);
    CHECK(bench.outcome->exit_code == 2);
    REQUIRE(bench.outcome->why);
    CHECK(
        output::words(*bench.outcome->why) ==
        "part 1 ('./a') is a program of Open MPI, part 2 ('./b') is one of MPICH: they cannot be one world");
    CHECK(output::hint(*bench.outcome->why) == "build both with one MPI, or start them as two jobs");
  }

  TEST_CASE("one program that is of another MPI on another host is none either") {
    JobBench bench(2);
    bench.tell(HostReady{HostIndex{0}, with_mpi({open_mpi}, {})});
    bench.tell(HostReady{HostIndex{1}, with_mpi({mpich}, {})});
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(output::words(*bench.outcome->why) ==
          "'./train' on gpu0 is a program of Open MPI, './train' on gpu1 is one of MPICH: they cannot be one "
          "world");
  }

  TEST_CASE("where one is guessed it is a line, and what a host tells of programs elsewhere is nothing") {
    TwoPrograms bench;
    bench.tell(HostReady{HostIndex{0}, with_mpi({open_mpi}, {mpich})});
    bench.tell(HostReady{HostIndex{1}, with_mpi({mpich}, {mpich, true})});
    CHECK(bench.said() == std::vector<std::string>{
                              "part 1 ('./a') is a program of Open MPI, part 2 ('./b') looks like a program "
                              "of MPICH: ranks of both cannot meet in MPI"});
    CHECK(bench.machine->phase() == Phase::forming);
  }

  TEST_CASE("what serves a program is told, once for hosts that agree") {
    TwoPrograms bench;
    bench.tell(HostReady{HostIndex{0}, with_mpi({open_mpi}, {}, "/lib/libpmix.so.2")});
    bench.tell(HostReady{HostIndex{1}, with_mpi({}, {})});
    std::vector<std::string> lines;
    for (const auto& action : bench.actions)
      if (const auto* tell = std::get_if<Tell>(&action);
          tell != nullptr && std::holds_alternative<notice::MpiFound>(tell->notice))
        for (auto& line : output::words(tell->notice)) lines.push_back(std::move(line));
    CHECK(lines == std::vector<std::string>{"'./a' on gpu0 is a program of Open MPI: its ranks meet by PMIx, "
                                            "of /lib/libpmix.so.2"});
  }

  TEST_CASE("MPI_Abort ends the job with its code, before the program itself ends") {
    JobBench bench(2);
    bench.all_running();
    bench.tell(WorkerAborted{WorkerId{3}, 7, bench.now, {}, "application called MPI_Abort"});
    CHECK(bench.machine->phase() == Phase::draining);
    CHECK(bench.signals(SIGTERM) == 1);
    bench.end(3, ExitStatus::exited(7));
    for (std::uint32_t id : {1u, 2u, 4u}) bench.end(id, ExitStatus::killed(SIGTERM, false));
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == 7);
    CHECK(bench.outcome->cause->rank == Rank{2});
    CHECK(bench.outcome->cause->status.describe() == "called MPI_Abort with code 7");
    CHECK(bench.outcome->others.terminated == 3);
  }

  TEST_CASE("MPI_Abort is no success, whatever its code and however the program ends then") {
    for (const auto& [code, exit_code] : std::map<int, int>{{0, 1}, {256, 1}, {-1, 255}, {1007, 239}}) {
      JobBench bench(1);
      bench.all_running();
      bench.tell(WorkerAborted{WorkerId{1}, code, bench.now, {}, {}});
      bench.end(1, code == 0 ? ExitStatus::exited(0) : ExitStatus::killed(SIGTERM, false));
      bench.end(2, ExitStatus::killed(SIGTERM, false));
      bench.all_stopped();
      REQUIRE(bench.outcome);
      CHECK(bench.outcome->exit_code == exit_code);
    }
  }

  TEST_CASE("an abort that comes after another failure, after the end, or from nobody changes nothing") {
    JobBench bench(2);
    bench.all_ready();
    bench.tell(WorkerAborted{WorkerId{1}, 7, bench.now, {}, {}});
    bench.tell(PortReserved{Generation{1}});
    for (std::uint32_t id = 1; id <= 4; ++id) bench.tell(WorkerStarted{WorkerId{id}, 1000 + id});
    bench.tell(WorkerAborted{WorkerId{99}, 7, bench.now, {}, {}});
    bench.end(2, ExitStatus::exited(0));
    bench.tell(WorkerAborted{WorkerId{2}, 7, bench.now, {}, {}});
    CHECK(bench.machine->phase() == Phase::running);
    bench.tell(WorkerExited{WorkerId{1}, ExitStatus::exited(3), bench.now, {}});
    bench.tell(WorkerAborted{WorkerId{4}, 7, bench.now, {}, {}});
    bench.tell(WorkerFinished{WorkerId{1}});
    for (std::uint32_t id : {3u, 4u}) bench.end(id, ExitStatus::killed(SIGTERM, false));
    bench.all_stopped();
    CHECK(bench.outcome->exit_code == 3);
    bench.tell(WorkerAborted{WorkerId{4}, 7, bench.now, {}, {}});
  }

  TEST_CASE("--on-failure ignore: the others go on, and the job ends as they do") {
    const auto ignores = [](JobSpec& job) { job.elastic.on_failure = OnFailure::ignore; };
    {
      JobBench bench(2, ignores);
      bench.all_running();
      bench.end(2, ExitStatus::killed(SIGKILL, false));
      CHECK(bench.machine->phase() == Phase::running);
      CHECK(bench.count<SignalWorkers>() == 0);
      CHECK(bench.said().back() ==
            "rank 1 on gpu0 was killed by SIGKILL: the job goes on, 3 of 4 ranks are left "
            "(--on-failure "
            "ignore)");
      bench.tell(HostLost{HostIndex{1}, "its link closed", bench.now});
      CHECK(bench.machine->phase() == Phase::running);
      bench.end(1, ExitStatus::exited(0));
      bench.all_stopped();
      REQUIRE(bench.outcome);
      CHECK(bench.outcome->kind == Outcome::Kind::success);
      CHECK(bench.outcome->exit_code == 0);
      CHECK_FALSE(bench.outcome->why);
    }
    {  // nobody is left
      JobBench bench(2, ignores);
      bench.all_running();
      for (std::uint32_t id : {3u, 1u, 4u}) bench.end(id, ExitStatus::exited(static_cast<int>(id)));
      CHECK(bench.machine->phase() == Phase::running);
      bench.end(2, ExitStatus::exited(9));
      bench.all_stopped();
      REQUIRE(bench.outcome);
      CHECK(bench.outcome->kind == Outcome::Kind::worker_failed);
      CHECK(bench.outcome->exit_code == 3);
    }
    {  // a host is lost, and for lack of it a rank fails
      JobBench bench(2, ignores);
      bench.all_running();
      bench.tell(HostLost{HostIndex{1}, "its link closed", bench.now});
      for (std::uint32_t id : {1u, 2u}) bench.end(id, ExitStatus::exited(9));
      bench.all_stopped();
      REQUIRE(bench.outcome);
      CHECK(bench.outcome->kind == Outcome::Kind::worker_failed);
      CHECK(bench.outcome->also_lost == std::vector{HostIndex{1}});
    }
    {  // one that says by its code that it failed
      JobBench bench(2, ignores);
      bench.all_running();
      bench.end(2, ExitStatus::exited(7));
      CHECK(bench.machine->phase() == Phase::running);
      bench.now += seconds(1);
      bench.end(3, ExitStatus::killed(SIGKILL, false));
      for (std::uint32_t id : {1u, 4u}) bench.end(id, ExitStatus::exited(0));
      bench.all_stopped();
      REQUIRE(bench.outcome);
      CHECK(bench.outcome->kind == Outcome::Kind::worker_failed);
      CHECK(bench.outcome->exit_code == 7);
      CHECK(bench.outcome->others.finished == 2);
    }
    {  // MPI_Abort means all
      JobBench bench(2, ignores);
      bench.all_running();
      bench.tell(WorkerAborted{WorkerId{2}, 7, bench.now, {}, {}});
      CHECK(bench.machine->phase() == Phase::draining);
    }
  }

  TEST_CASE("ranks that end since their exchange is gone are not to blame, a later one is") {
    for (const bool soon : {true, false}) {
      JobBench bench(2);
      bench.all_running();
      bench.tell(ExchangeBroken{Generation{1}, {}, "the helper for PMIx on gpu0 was killed by SIGKILL"});
      if (!soon) bench.now += seconds(60);
      bench.end(2, ExitStatus::exited(195));
      for (std::uint32_t id : {1u, 3u, 4u}) bench.end(id, ExitStatus::killed(SIGTERM, false));
      bench.all_stopped();
      REQUIRE(bench.outcome);
      CHECK(bench.outcome->exit_code == (soon ? 70 : 195));
      CHECK((bench.outcome->kind == Outcome::Kind::exchange_lost) == soon);
      CHECK(bench.outcome->others.failed == (soon ? 1 : 0));
    }
  }

  TEST_CASE("a rank that leaves MPI in silence, since its helper is gone, is not to blame") {
    JobBench bench(2);
    bench.all_running();
    bench.tell(ExchangeBroken{Generation{1}, {}, "the helper for PMIx on gpu0 was killed by SIGKILL"});
    bench.now += seconds(60);
    bench.end(2, ExitStatus::deserted("within MPI"));
    for (std::uint32_t id : {1u, 3u, 4u}) bench.end(id, ExitStatus::killed(SIGTERM, false));
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == 70);
  }

  TEST_CASE("a rank that others wait for in hvd.init is the cause") {
    JobBench bench(2);
    bench.all_running();
    bench.end(4, ExitStatus::exited(0));
    bench.tell(ExchangeBroken{Generation{1}, {Rank{3}}, {}, true});
    CHECK(bench.machine->phase() == Phase::draining);
    for (std::uint32_t id : {1u, 2u, 3u}) bench.end(id, ExitStatus::killed(SIGTERM, false));
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == 1);
    CHECK(bench.outcome->cause->status.describe() ==
          "exited with code 0 without hvd.init, where other ranks wait for it");
  }

  TEST_CASE("a rank that left others behind in MPI is the cause, though it exited with 0") {
    JobBench bench(2);
    bench.all_running();
    bench.end(4, ExitStatus::exited(0));
    CHECK(bench.machine->phase() == Phase::running);
    bench.tell(ExchangeBroken{Generation{2}, {Rank{3}}, "another generation's"});
    bench.tell(ExchangeBroken{Generation{1}, {Rank{1}}, "one that lives"});
    CHECK(bench.machine->phase() == Phase::running);
    bench.tell(ExchangeBroken{Generation{1}, {Rank{3}}, "rank 3 ended while others waited for it"});
    CHECK(bench.machine->phase() == Phase::draining);
    for (std::uint32_t id : {1u, 2u, 3u}) bench.end(id, ExitStatus::killed(SIGTERM, false));
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->exit_code == 1);
    CHECK(bench.outcome->cause->rank == Rank{3});
    CHECK(bench.outcome->cause->status.describe() ==
          "exited with code 0 while other ranks waited for it in MPI");
    CHECK(bench.outcome->others.terminated == 3);
  }

  TEST_CASE("a rank that ends well within MPI after it was asked to end has not failed") {
    JobBench bench(1);
    bench.all_running();
    bench.tell(UserSignal{SIGINT});
    // Its host's clock says that this was before; it was not.
    bench.end(1, ExitStatus::deserted("within MPI"), bench.now - milliseconds(1), false, milliseconds(5));
    bench.end(2, ExitStatus::killed(SIGTERM, false));
    bench.all_stopped();
    CHECK(bench.outcome->exit_code == 130);
    CHECK(bench.outcome->others.failed == 0);
  }

  TEST_CASE("an elastic world starts again after either, and pays a restart") {
    ElasticBench bench(2);
    bench.all_running();
    bench.tell(WorkerAborted{bench.at(1), 7, bench.now, {}, "no data"});
    CHECK(bench.has_said("rank 1 on gpu0 called MPI_Abort with code 7; restarting all ranks"));
    bench.end(bench.at(1), ExitStatus::exited(7));
    bench.drained();
    bench.form();
    CHECK(bench.generation() == 2);
    bench.end(bench.at(2), ExitStatus::exited(0));
    bench.tell(ExchangeBroken{Generation{2}, {Rank{2}}, "rank 2 ended while others waited for it"});
    bench.drained();
    bench.pass(Deadline::backoff);  // the second failure in a row
    bench.form();
    CHECK(bench.generation() == 3);
    CHECK(bench.machine->restarts() == 2);
    bench.finish_all();
    bench.all_stopped();
    CHECK(bench.outcome->exit_code == 0);
  }
}

}  // namespace
}  // namespace trainrun::core
