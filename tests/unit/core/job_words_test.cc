#include <algorithm>

#include "tests/unit/core/job_bench.h"

using namespace trainrun;
using namespace trainrun::core;
using Bench = JobBench;

namespace {

std::string last_said_of(const Bench& bench) {
  const auto lines = bench.said();
  return lines.empty() ? std::string{} : lines.back();
}

}  // namespace

TEST_SUITE("core.job_words") {
  TEST_CASE("hosts that do not answer a start are named, once") {
    Bench bench(3);
    bench.tell(HostReady{HostIndex{0}});
    bench.pass(Deadline::notice);
    CHECK(bench.said() == std::vector<std::string>{"waiting for hosts: gpu1 and gpu2 (connecting, 5.0 s); "
                                                   "giving up within 55.0 s (--start-timeout)"});
    CHECK_FALSE(bench.armed.contains(Deadline::notice));
  }

  TEST_CASE("hosts that answer in time are not waited for aloud") {
    Bench bench(2);
    bench.all_running();
    CHECK_FALSE(bench.armed.contains(Deadline::notice));
  }

  TEST_CASE("who was killed by SIGTERM on the way out of an exception is told apart") {
    Bench bench(2);
    bench.all_running();
    bench.end(1, ExitStatus::exited(1));
    for (std::uint32_t id : {2u, 3u, 4u}) {
      WorkerExited end{WorkerId{id},   ExitStatus::killed(SIGTERM, false), bench.now, {}, {}, {},
                       bench.signalled};
      end.raised = id != 4;
      bench.tell(end);
      bench.tell(WorkerFinished{WorkerId{id}});
    }
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->others.raised == 2);
    CHECK(bench.outcome->others.terminated == 1);
  }

  TEST_CASE("an end that takes more than a second is explained, once") {
    Bench bench(2, [](JobSpec& spec) { spec.timeout = seconds(60); });
    bench.all_running();
    const auto last_said = [&] { return last_said_of(bench); };
    SUBCASE("a rank failed") {
      bench.end(2, ExitStatus::exited(4));
      bench.pass(Deadline::notice);
      CHECK(last_said() == "rank 1 on gpu0 exited with code 4; ending 3 ranks: SIGKILL in 9.0 s");
      bench.pass(Deadline::grace);
      CHECK(last_said() == "3 ranks did not end within 10.0 s of SIGTERM: SIGKILL (try: --grace 60s)");
    }
    SUBCASE("a host was lost") {
      bench.tell(HostLost{HostIndex{1}, "gone"});
      bench.end(1, ExitStatus::killed(SIGTERM, false));
      bench.pass(Deadline::notice);
      CHECK(last_said() == "host gpu1 (ranks 2-3) was lost: gone; ending 1 rank: SIGKILL in 9.0 s");
    }
    SUBCASE("the time is over") {
      bench.pass(Deadline::job);
      bench.pass(Deadline::notice);
      CHECK(last_said() == "--timeout 1m00s has expired; ending 4 ranks: SIGKILL in 9.0 s");
    }
    SUBCASE("a signal is answered at once") {
      bench.tell(UserSignal{SIGINT});
      CHECK(last_said() == "SIGINT: ending 4 ranks; SIGKILL in 10.0 s (again to kill them now)");
      CHECK_FALSE(bench.armed.contains(Deadline::notice));
    }
    SUBCASE("when all have ended by then, it is what they left that takes so long") {
      for (std::uint32_t id = 1; id <= 4; ++id) bench.end(id, ExitStatus::exited(1), bench.now);
      bench.pass(Deadline::notice);
      CHECK(last_said() ==
            "rank 0 on gpu0 exited with code 1; processes that are no ranks still run: SIGKILL in 9.0 s");
    }
  }

  TEST_CASE("a grace that is shorter explains its KILL") {
    Bench bench(2, [](JobSpec& spec) { spec.grace = milliseconds(500); });
    bench.all_running();
    bench.tell(OutputClosed{});
    bench.pass(Deadline::grace);
    CHECK(last_said_of(bench) ==
          "nobody reads the output any more; 4 ranks did not end within 0.51 s of SIGTERM: SIGKILL "
          "(try: --grace 60s)");
    CHECK_FALSE(bench.armed.contains(Deadline::notice));
  }

  TEST_CASE("last output that nobody reads is told to be waited for, once, and given up when the user asks") {
    Bench bench(1);
    bench.all_running();
    bench.end(1, ExitStatus::exited(3));
    bench.tell(WorkerExited{WorkerId{2}, ExitStatus::killed(SIGTERM, false), bench.now, {}});
    const auto times = [&bench](const std::string& line) {
      const auto lines = bench.said();
      return std::count(lines.begin(), lines.end(), line);
    };
    bench.pass(Deadline::grace);
    for (int i = 0; i < 3; ++i) bench.pass(Deadline::kill);
    CHECK(times("waiting until the last output of 1 rank is read; a signal ends that") == 1);
    CHECK(bench.machine->phase() == JobMachine::Phase::draining);
    bench.tell(UserSignal{SIGTERM});
    bench.pass(Deadline::kill);
    CHECK(times("the last output of 1 rank was not read in time") == 1);
    CHECK(bench.machine->phase() == JobMachine::Phase::closing);
  }

  TEST_CASE("what ranks left in the background is told when it is ended") {
    Bench bench(1);
    bench.all_running();
    for (std::uint32_t id : {1u, 2u}) bench.end(id, ExitStatus::exited(0));
    const auto told = [&bench](const std::string& line) {
      const auto lines = bench.said();
      return std::count(lines.begin(), lines.end(), line);
    };
    SUBCASE("with names, which are made printable") {
      bench.tell(HostStopped{HostIndex{0}, 3, true, {"sh", "sl\x1b"}});
      CHECK(told("ranks on gpu0 ended and left 3 processes (sh and sl\\x1b) behind, which were ended, by "
                 "SIGKILL") == 1);
    }
    SUBCASE("nothing when there was nothing") {
      bench.tell(HostStopped{HostIndex{0}});
      CHECK(bench.said().empty());
    }
  }
}
