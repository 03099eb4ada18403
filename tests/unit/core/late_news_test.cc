// Hosts whose news come late, as behind output on a slow link.
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>

#include "tests/unit/core/elastic_bench.h"
#include "tests/unit/core/job_bench.h"

using namespace trainrun;
using namespace trainrun::core;

namespace {

constexpr HostIndex slow{0}, prompt{1};

// The user ends it.
struct EndedJob : JobBench {
  explicit EndedJob(int hosts) : JobBench(hosts) {
    all_running();
    tell(UserSignal{SIGTERM});
    asked = now;
  }
  void pass_late(Deadline deadline, Instant until) {
    REQUIRE(armed.contains(deadline));
    now = armed[deadline];
    armed.erase(deadline);
    tell(DeadlinePassed{deadline, {{slow, until}}});
  }
  int given_up() const { return count<AbandonHost>(); }
  int told(std::string_view part) const {
    const auto lines = said();
    return static_cast<int>(std::count_if(
        lines.begin(), lines.end(), [part](const auto& it) { return it.find(part) != std::string::npos; }));
  }
  Instant asked{};
};

}  // namespace

TEST_SUITE_BEGIN("core.late_news");

TEST_CASE(
    "a host whose reports arrive late is waited for, which is told once, and its ranks ended as they did") {
  EndedJob bench(1);
  bench.pass_late(Deadline::grace, bench.asked);
  CHECK(bench.told("SIGKILL") == 1);  // the promise; that they needed it is not known
  for (int i = 0; i < 4; ++i) bench.pass_late(Deadline::kill, bench.asked);
  CHECK(bench.phase() == JobMachine::Phase::draining);
  CHECK(bench.given_up() == 0);
  CHECK(bench.told("gpu0: its reports arrive ") == 1);
  bench.signalled = {};
  bench.signalled.add(SIGTERM);
  for (const std::uint32_t id : {1, 2}) bench.end(id, ExitStatus::killed(SIGTERM, false));
  bench.all_stopped();
  REQUIRE(bench.outcome);
  CHECK(bench.outcome->exit_code == 143);
  CHECK(bench.outcome->others.terminated == 2);
  CHECK(bench.outcome->others.killed == 0);
}

TEST_CASE("what is known to be due and has not come is judged at once, on another host too") {
  EndedJob bench(2);
  bench.pass(Deadline::grace);
  const auto killed = bench.now;
  bench.pass_late(Deadline::kill, killed);
  CHECK(bench.given_up() == 1);
  CHECK(bench.count<AbandonHost>([](const auto& it) { return it.host == prompt; }) == 1);
  CHECK(bench.told("gpu1: processes survived SIGKILL") == 1);
  // Late, and nevertheless from after it was due.
  bench.pass_late(Deadline::kill, killed + seconds(6));
  CHECK(bench.told("gpu0: processes survived SIGKILL") == 1);
  CHECK(bench.count<AbandonHost>([](const auto& it) { return it.host == slow; }) == 1);
}

TEST_CASE("of a silent host nobody says that its processes withstand SIGKILL") {
  EndedJob bench(1);
  bench.pass(Deadline::grace);
  const auto heard = bench.now - seconds(1);
  bench.now = bench.armed.at(Deadline::kill);
  bench.armed.erase(Deadline::kill);
  bench.tell(DeadlinePassed{Deadline::kill, {{slow, heard, true}}});
  CHECK(bench.given_up() == 1);
  CHECK(bench.told("gpu0: no answer for 6.0 s; what ran there is not waited for") == 1);
  CHECK(bench.told("survived SIGKILL") == 0);
}

TEST_CASE("news are not waited for without end") {
  EndedJob bench(1);
  bench.pass(Deadline::grace);
  const auto due = bench.armed.at(Deadline::kill);
  while (bench.given_up() == 0) {
    REQUIRE(bench.now < due + std::chrono::hours(1));
    bench.pass_late(Deadline::kill, bench.asked);
  }
  CHECK(bench.now >= due + LateNews::longest);
  CHECK(bench.told("late, after 5m00s: giving it up") == 1);
  CHECK(bench.told("survived SIGKILL") == 0);
}

TEST_CASE("who asks twice waits a moment more for news, and not from when they were due") {
  EndedJob bench(1);
  bench.pass(Deadline::grace);
  for (int i = 0; i < 2; ++i) bench.pass_late(Deadline::kill, bench.asked);
  REQUIRE(bench.armed.at(Deadline::kill) > bench.now + LateNews::in_a_hurry);
  bench.now += seconds(1);
  bench.tell(UserSignal{SIGINT});
  const auto limit = bench.now + LateNews::in_a_hurry;
  CHECK(bench.armed.at(Deadline::kill) == bench.now);
  bench.pass_late(Deadline::kill, bench.asked);
  CHECK(bench.given_up() == 0);
  CHECK(bench.armed.at(Deadline::kill) == limit);
  bench.pass_late(Deadline::kill, bench.asked);
  CHECK(bench.given_up() == 1);
  CHECK(bench.told("giving it up") == 1);
}

TEST_CASE("who has asked twice before news are due waits a moment from then") {
  EndedJob bench(1);
  bench.now += seconds(1);
  bench.tell(UserSignal{SIGINT});
  const auto due = bench.armed.at(Deadline::kill);
  bench.pass_late(Deadline::kill, bench.asked);
  CHECK(bench.told("waiting for them, 5.0 s at most") == 1);
  CHECK(bench.armed.at(Deadline::kill) == due + LateNews::in_a_hurry);
  bench.pass_late(Deadline::kill, bench.asked);
  CHECK(bench.given_up() == 1);
}

TEST_CASE("last output that is on its way is waited for where the user has asked for the end") {
  EndedJob bench(1);
  for (const std::uint32_t id : {1, 2})
    bench.tell(WorkerExited{
        WorkerId{id}, ExitStatus::killed(SIGTERM, false), bench.now, {}, {}, {}, bench.signalled});
  bench.pass_late(Deadline::grace, bench.asked);
  bench.pass_late(Deadline::kill, bench.asked);
  CHECK(bench.told("was not read in time") == 0);
  CHECK(bench.phase() == JobMachine::Phase::draining);
  for (const std::uint32_t id : {1, 2}) bench.tell(WorkerFinished{WorkerId{id}});
  CHECK(bench.phase() == JobMachine::Phase::closing);
}

TEST_CASE("an elastic job keeps a host whose reports arrive late, also of what it clears up") {
  ElasticBench bench(2);
  bench.all_running();
  const auto late = [&bench, from = bench.now](Deadline deadline) {
    REQUIRE(bench.armed.contains(deadline));
    bench.now = bench.armed[deadline];
    bench.armed.erase(deadline);
    bench.tell(DeadlinePassed{deadline, {{slow, from}}});
  };
  bench.end(bench.at(2), ExitStatus::exited(1));
  bench.end(bench.at(3), ExitStatus::killed(SIGTERM, false));
  for (const auto deadline : {Deadline::grace, Deadline::kill, Deadline::kill}) late(deadline);
  for (const auto rank : {0, 1}) bench.end(bench.at(rank), ExitStatus::killed(SIGTERM, false));
  REQUIRE(bench.sweeps.size() == 2);
  bench.tell(HostSwept{prompt, bench.world.placement.generation});
  for (int i = 0; i < 2; ++i) late(Deadline::sweep);
  CHECK(bench.count<AbandonHost>() == 0);
  CHECK(bench.phase() == JobMachine::Phase::draining);
  bench.tell(HostSwept{slow, bench.world.placement.generation});
  bench.form();
  CHECK(bench.seats() == "0.0 0.1 1.0 1.1");
}

TEST_CASE("a rank that had ended before SIGKILL reached it did not need it") {
  EndedJob bench(1);
  bench.pass(Deadline::grace);
  bench.end(1, ExitStatus::killed(SIGKILL, false));
  bench.signalled = {};
  bench.signalled.add(SIGTERM);
  bench.end(2, ExitStatus::killed(SIGTERM, false));
  bench.all_stopped();
  REQUIRE(bench.outcome);
  CHECK(bench.outcome->others.killed == 1);
  CHECK(bench.outcome->others.terminated == 1);
}

TEST_SUITE_END();
