// An elastic job driven by hand: hosts of two slots, a clock of its own, and the few answers that agents
// give.
#pragma once

#include <doctest/doctest.h>

#include <csignal>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/core/job_machine.h"
#include "launcher/output/words.h"
#include "tests/unit/core/replayed.h"

namespace trainrun::core {

struct ElasticBench {
  explicit ElasticBench(
      int hosts, OnFailure policy = OnFailure::restart_world,
      const std::function<void(JobSpec&)>& change = [](JobSpec&) {}) {
    for (int i = 0; i < hosts; ++i) spec.hosts.hosts.push_back(host(i));
    spec.programs.push_back({{"./train"}, 2 * hosts, "/w", {}});
    spec.elastic.on_failure = policy;
    spec.elastic.min_np = 2;
    change(spec);
    machine.emplace(spec, Placement{});
    replayed.emplace(spec, Placement{}, now);
    tell(Begin{});
  }

  static Host host(int i, int slots = 2) {
    return {.name = "gpu" + std::to_string(i), .slots = slots, .slots_given = true};
  }

  // A world without one of them is too small: who comes anew is waited for.
  static void needs_all(JobSpec& spec) { spec.elastic.min_np = spec.world_size(); }

  void tell(const JobEvent& event) {
    now += milliseconds(10);
    auto decided = machine->step(event, now);
    replayed->step(now, event, decided);
    for (auto& action : decided) {
      if (const auto* finish = std::get_if<Finish>(&action)) outcome = finish->outcome;
      if (const auto* arm = std::get_if<Arm>(&action)) armed[arm->deadline] = arm->at;
      if (const auto* disarm = std::get_if<Disarm>(&action)) armed.erase(disarm->deadline);
      if (const auto* begin = std::get_if<BeginWorld>(&action)) world = *begin;
      if (const auto* reserve = std::get_if<ReservePort>(&action)) port = reserve->generation;
      if (const auto* start = std::get_if<StartWorker>(&action)) ordered.push_back(start->worker);
      if (const auto* signal = std::get_if<SignalWorkers>(&action)) {
        for (const auto worker : signal->workers) signalled[worker].add(signal->number);
        for (const auto& view : machine->workers())
          if (signal->workers.empty()) signalled[view.worker].add(signal->number);
      }
      if (const auto* sweep = std::get_if<Sweep>(&action); sweep != nullptr && sweep->generation)
        sweeps.push_back(*sweep);
      if (const auto* add = std::get_if<AddHost>(&action)) names[add->host] = add->as.name;
      if (const auto* tell = std::get_if<Tell>(&action); tell != nullptr && !is_detail(tell->notice))
        for (const auto& line : output::words(tell->notice)) said += line + "\n";
      actions.push_back(std::move(action));
    }
    INFO(machine->broken_invariant());
    CHECK(machine->broken_invariant().empty());
  }

  void ready(std::uint32_t index) { tell(HostReady{HostIndex{index}}); }
  void lose(std::uint32_t index) { tell(HostLost{HostIndex{index}, "no answer for 10.0 s"}); }
  // The port is there, and everybody who was ordered starts; comm programs meet.
  void form(bool meet = false) {
    REQUIRE(port);
    tell(PortReserved{*std::exchange(port, std::nullopt)});
    for (const auto worker : std::exchange(ordered, {})) tell(WorkerStarted{worker, 1000 + worker.value});
    if (meet) this->meet();
    REQUIRE(machine->phase() == JobMachine::Phase::running);
  }
  void meet() {
    for (const auto& seat : world.placement.seats) tell(MemberJoined{world.placement.generation, seat.rank});
    tell(WorldJoined{world.placement.generation, true});
  }
  // Newcomers that were ordered have started, and ask for their place.
  void newcomers_ask() {
    for (const auto worker : std::exchange(ordered, {})) {
      tell(WorkerStarted{worker, 1000 + worker.value});
      tell(MemberWaits{Generation{0}, worker});
    }
  }
  void all_running(bool meet = false) {
    for (std::uint32_t i = 0; i < spec.hosts.hosts.size(); ++i) ready(i);
    form(meet);
  }
  WorkerId at(std::uint32_t rank) const { return world.workers.at(rank); }
  void end(WorkerId worker, ExitStatus status, bool lost_peer = false) {
    tell(WorkerExited{worker, std::move(status), now, {}, {}, {}, signalled[worker], lost_peer});
    tell(WorkerFinished{worker, lost_peer});
  }
  // Everybody who lives dies of the signal that the brain sent, and the hosts clear up.
  void drained() {
    const auto members = machine->workers();
    for (const auto& view : members)
      if (view.state == JobMachine::WorkerState::spawned)
        end(view.worker, ExitStatus::killed(SIGTERM, false));
    for (const auto& sweep : std::exchange(sweeps, {})) tell(HostSwept{sweep.host, *sweep.generation});
  }
  void pass(Deadline deadline) {
    REQUIRE(armed.contains(deadline));
    now = std::max(now, armed[deadline]);
    armed.erase(deadline);
    tell(DeadlinePassed{deadline});
  }
  void finish_all() {
    for (const auto& view : machine->workers())
      if (view.state == JobMachine::WorkerState::spawned) end(view.worker, ExitStatus::exited(0));
  }
  void all_stopped() {
    for (const auto& view : machine->hosts())
      if (view.state == JobMachine::HostState::stopping) tell(HostStopped{view.index});
  }
  template <class Action>
  int count(const std::function<bool(const Action&)>& which = [](const Action&) { return true; }) const {
    int n = 0;
    for (const auto& action : actions)
      if (const auto* it = std::get_if<Action>(&action)) n += which(*it) ? 1 : 0;
    return n;
  }
  int signals(int number) const {
    return count<SignalWorkers>([number](const auto& it) { return it.number == number; });
  }
  std::uint32_t generation() const { return world.placement.generation.value; }
  std::size_t ranks() const { return world.placement.seats.size(); }
  // "0.0 0.1 1.0": host.slot of each rank
  std::string seats() const {
    std::string out;
    for (const auto& seat : world.placement.seats)
      out += (out.empty() ? "" : " ") + std::to_string(seat.host.value) + "." + std::to_string(seat.slot);
    return out;
  }
  JobMachine::Phase phase() const { return machine->phase(); }
  bool has_said(const std::string& words) const { return said.find(words) != std::string::npos; }

  JobSpec spec;
  std::optional<JobMachine> machine;
  std::optional<Replayed> replayed;
  Instant now{seconds(1000)};
  JobActions actions;
  std::vector<Sweep> sweeps;  // that are not answered
  std::map<Deadline, Instant> armed;
  std::map<HostIndex, std::string> names;
  std::map<WorkerId, SignalSet> signalled;  // what agents have sent to those that live
  std::optional<Outcome> outcome;
  std::optional<Generation> port;
  std::vector<WorkerId> ordered;
  BeginWorld world;
  std::string said;
};

}  // namespace trainrun::core
