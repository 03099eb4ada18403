// What an event costs does not grow with the job: the brain counts the workers and hosts that it looks at one
// by one. Only what begins or ends a generation may look at all of them, once or a few times.
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "launcher/core/job_machine.h"

using namespace trainrun;
using namespace trainrun::core;

namespace {

constexpr int ranks_a_host = 8;

struct Cost {
  std::uint64_t events = 0, visited = 0, worst = 0;  // without the events that begin or end a generation
  std::uint64_t whole = 0, wholes = 0;               // visited by those, and how many they were
};

class ScaleBench {
 public:
  ScaleBench(int hosts, bool elastic) : hosts_(static_cast<std::uint32_t>(hosts)), job_(job(hosts, elastic)) {
    machine_ = std::make_unique<JobMachine>(job_, elastic ? Placement{} : *place(job_, Generation{1}));
  }

  // What each kind of event costs over the whole life of the job.
  std::map<std::string, Cost> run() {
    tell("begin", Begin{});
    for (std::uint32_t i = 0; i < hosts_; ++i) tell("ready", HostReady{{i}});
    tell("port", PortReserved{Generation{1}});
    const auto ordered = std::exchange(ordered_, {});
    REQUIRE(ordered.size() == std::size_t{hosts_} * ranks_a_host);
    for (const auto id : ordered) tell("started", WorkerStarted{id, 7});
    REQUIRE(machine_->phase() == JobPhase::running);
    for (std::uint32_t rank = 0; rank < ordered.size(); ++rank)
      tell("joined", MemberJoined{Generation{1}, {rank}});
    tell("met", WorldJoined{Generation{1}, true});
    for (const auto id : ordered) tell("exited", WorkerExited{id, ExitStatus::exited(0), now_});
    for (const auto id : ordered) tell("finished", WorkerFinished{id});
    REQUIRE(machine_->phase() == JobPhase::closing);
    for (std::uint32_t i = 0; i < hosts_; ++i) tell("stopped", HostStopped{{i}});
    REQUIRE(machine_->phase() == JobPhase::done);
    return costs_;
  }

  // One rank fails, all are ended, and a new generation starts.
  std::map<std::string, Cost> restart() {
    tell("begin", Begin{});
    for (std::uint32_t i = 0; i < hosts_; ++i) tell("ready", HostReady{{i}});
    tell("port", PortReserved{Generation{1}});
    const auto ordered = std::exchange(ordered_, {});
    for (const auto id : ordered) tell("started", WorkerStarted{id, 7});
    tell("failed", WorkerExited{ordered.front(), ExitStatus::exited(1), now_});
    REQUIRE(machine_->phase() == JobPhase::draining);
    SignalSet term;
    term.add(SIGTERM);
    for (const auto id : ordered)
      tell("drained", WorkerExited{id, ExitStatus::killed(SIGTERM, false), now_, {}, {}, {}, term});
    for (const auto id : ordered) tell("finished", WorkerFinished{id});
    for (std::uint32_t i = 0; i < hosts_; ++i) tell("swept", HostSwept{{i}, Generation{1}});
    REQUIRE(machine_->phase() == JobPhase::forming);
    tell("port", PortReserved{Generation{2}});
    for (const auto id : std::exchange(ordered_, {})) tell("started", WorkerStarted{id, 7});
    REQUIRE(machine_->phase() == JobPhase::running);
    return costs_;
  }

 private:
  static JobSpec job(int hosts, bool elastic) {
    JobSpec job;
    for (int i = 0; i < hosts; ++i)
      job.hosts.hosts.push_back(
          {.name = "node" + std::to_string(i), .slots = ranks_a_host, .slots_given = true});
    job.programs = {{{"./train"}, hosts * ranks_a_host, "/w", {}}};
    if (!elastic) return job;
    job.elastic.on_failure = OnFailure::restart_world;
    job.elastic.min_np = job.elastic.max_np = hosts * ranks_a_host;
    return job;
  }

  void tell(const std::string& kind, const JobEvent& event) {
    now_ += milliseconds(1);
    const auto before = machine_->visited();
    const auto phase = machine_->phase();
    for (const auto& action : machine_->step(event, now_))
      if (const auto* start = std::get_if<StartWorker>(&action)) ordered_.push_back(start->worker);
    static_cast<void>(machine_->progress());
    const auto visited = machine_->visited() - before;
    auto& cost = costs_[kind];
    if (machine_->phase() != phase || kind == "begin" || kind == "port" || kind == "met") {
      cost.whole += visited;
      ++cost.wholes;
      return;
    }
    ++cost.events;
    cost.visited += visited;
    cost.worst = std::max(cost.worst, visited);
  }

  const std::uint32_t hosts_;
  const JobSpec job_;
  std::unique_ptr<JobMachine> machine_;
  Instant now_{seconds(1000)};
  std::vector<WorkerId> ordered_;
  std::map<std::string, Cost> costs_;
};

void check(const std::map<std::string, Cost>& costs, int hosts) {
  const auto all = static_cast<std::uint64_t>(hosts) * (ranks_a_host + 1);
  for (const auto& [kind, cost] : costs) {
    INFO(kind << ": " << cost.events << " events looked at " << cost.visited << ", the worst at "
              << cost.worst << "; " << cost.wholes << " looked at " << cost.whole);
    CHECK(cost.visited <= 2 * cost.events);
    CHECK(cost.worst <= 2 * ranks_a_host);
    CHECK(cost.wholes <= 4);
    CHECK(cost.whole <= 20 * all);
  }
}

}  // namespace

TEST_CASE("an event of a job costs the same at 1,250 and at 12,500 hosts") {
  for (const int hosts : {1250, 12500}) check(ScaleBench(hosts, false).run(), hosts);
}

TEST_CASE("an event of an elastic job costs the same at 1,250 and at 12,500 hosts") {
  for (const int hosts : {1250, 12500}) {
    check(ScaleBench(hosts, true).run(), hosts);
    check(ScaleBench(hosts, true).restart(), hosts);
  }
}
