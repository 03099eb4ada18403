// A job that is not elastic, driven by hand.
#pragma once

#include <doctest/doctest.h>

#include <csignal>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/core/job_machine.h"
#include "launcher/output/words.h"
#include "tests/unit/core/replayed.h"

namespace trainrun::core {

// A job of `hosts` hosts with two ranks each, driven by hand with a clock of its own.
struct JobBench {
  explicit JobBench(
      int hosts, const std::function<void(JobSpec&)>& change = [](JobSpec&) {}) {
    for (int i = 0; i < hosts; ++i)
      spec.hosts.hosts.push_back({.name = "gpu" + std::to_string(i), .slots = 2});
    spec.programs.push_back({{"./train"}, 2 * hosts, "/w", {}});
    change(spec);
    placement = *place(spec, Generation{1});
    machine.emplace(spec, placement);
    replayed.emplace(spec, placement, now);
    tell(Begin{});
    begun = now;
  }

  void tell(const JobEvent& event) {
    now += milliseconds(10);
    auto decided = machine->step(event, now);
    replayed->step(now, event, decided);
    for (auto& action : decided) {
      if (const auto* finish = std::get_if<Finish>(&action)) outcome = finish->outcome;
      if (const auto* arm = std::get_if<Arm>(&action)) armed[arm->deadline] = arm->at;
      if (const auto* disarm = std::get_if<Disarm>(&action)) armed.erase(disarm->deadline);
      if (const auto* signal = std::get_if<SignalWorkers>(&action)) signalled.add(signal->number);
      actions.push_back(std::move(action));
    }
    INFO(machine->broken_invariant());
    CHECK(machine->broken_invariant().empty());
  }
  void all_ready() {
    for (std::uint32_t i = 0; i < spec.hosts.hosts.size(); ++i) tell(HostReady{HostIndex{i}});
  }
  void all_running() {
    all_ready();
    tell(PortReserved{Generation{1}});
    for (std::uint32_t id = 1; id <= placement.seats.size(); ++id)
      tell(WorkerStarted{WorkerId{id}, 1000 + id});
    REQUIRE(machine->phase() == JobMachine::Phase::running);
  }
  void end(std::uint32_t id, ExitStatus status, Instant at, bool lost_peer = false, Duration error = {}) {
    tell(WorkerExited{WorkerId{id}, std::move(status), at, error, {}, {}, signalled, lost_peer});
    tell(WorkerFinished{WorkerId{id}, lost_peer});
  }
  void end(std::uint32_t id, ExitStatus status) { end(id, std::move(status), now + milliseconds(10)); }
  void all_stopped() {
    for (std::uint32_t i = 0; i < spec.hosts.hosts.size(); ++i) tell(HostStopped{HostIndex{i}});
  }
  void pass(Deadline deadline) {
    REQUIRE(armed.contains(deadline));
    now = armed[deadline];
    armed.erase(deadline);
    tell(DeadlinePassed{deadline});
  }
  template <class Action>
  int count(const std::function<bool(const Action&)>& which = [](const Action&) { return true; }) const {
    int n = 0;
    for (const auto& action : actions) {
      if (const auto* it = std::get_if<Action>(&action)) n += which(*it) ? 1 : 0;
    }
    return n;
  }
  // All that was told and is no detail, in words.
  std::vector<std::string> said() const {
    std::vector<std::string> lines;
    for (const auto& action : actions)
      if (const auto* tell = std::get_if<Tell>(&action); tell != nullptr && !is_detail(tell->notice))
        for (auto& line : output::words(tell->notice)) lines.push_back(std::move(line));
    return lines;
  }
  JobMachine::Phase phase() const { return machine->phase(); }
  int signals(int number) const {
    return count<SignalWorkers>([number](const auto& it) { return it.number == number; });
  }

  JobSpec spec;
  Placement placement;
  std::optional<JobMachine> machine;
  std::optional<Replayed> replayed;
  Instant now{seconds(1000)}, begun{};
  JobActions actions;
  std::map<Deadline, Instant> armed;
  SignalSet signalled;  // what agents have sent to all that still live, unless a test says otherwise
  std::optional<Outcome> outcome;
};

}  // namespace trainrun::core
