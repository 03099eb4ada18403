// What must hold, judged from what the brain was told and what it ordered, never from what it thinks.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/core/job_machine.h"
#include "tests/sim/scenario.h"

namespace trainrun::sim {

class Judge {
 public:
  explicit Judge(const Scenario& scenario);

  void event(const core::JobEvent& event, Instant now);
  void action(const core::JobAction& action, Instant now);
  void after_step(const core::JobMachine& machine);
  // An agent has started the process.
  void spawned(int machine, Generation generation);
  // The hosts that are healthy and listed can, or cannot, hold the smallest world.
  void capacity(bool enough, Instant now);
  // Nothing more will happen: was there an end?
  void over(const core::JobMachine& machine, Instant now, Instant calm_since, bool timed_out);
  void fail(std::string what) {
    if (broken_.empty()) broken_ = std::move(what);
  }
  [[nodiscard]] const std::string& broken() const { return broken_; }
  [[nodiscard]] const std::optional<core::Outcome>& outcome() const { return outcome_; }

 private:
  struct Known {  // a worker, by what was ordered and told
    enum class State : std::uint8_t { ordered, started, exited, lost };
    State state = State::ordered;
    core::Seat seat;
    Generation generation;  // the latest that it is in
    bool seasoned = false, finished = false;
    bool ended_by_order = false;  // it was dismissed, signalled by name, or told to leave
    std::optional<ExitStatus> status;
  };
  enum class Link : std::uint8_t { none, dialling, ready, closing };
  struct KnownHost {
    Host host;
    Link link = Link::none;
    bool listed = true, removed = false, leaving = false;
  };

  void begins(const core::BeginWorld& begin);
  void check_in_place(const core::BeginWorld& begin);
  void check_size(const core::BeginWorld& begin);
  void check_places(const core::BeginWorld& begin);
  void starts(const core::StartWorker& start);
  void ends(const core::Outcome& outcome, Instant now);
  void lose(HostIndex host);
  KnownHost& host(HostIndex index);
  void need_link(HostIndex index, const char* what);
  [[nodiscard]] bool lives(const Known& worker) const {
    return worker.state == Known::State::ordered || worker.state == Known::State::started;
  }

  const Scenario& scenario_;
  std::string broken_;
  std::vector<KnownHost> hosts_;
  std::map<WorkerId, Known> workers_;
  std::optional<core::BeginWorld> world_;
  Generation reserved_{}, broken_generation_{}, announced_generation_{};
  std::set<WorkerId> to_start_;
  std::set<core::Deadline> armed_;
  std::map<int, Generation> begun_on_;  // by machine
  std::vector<Instant> restarts_, refunds_;
  int restarts_seen_ = 0;
  bool may_charge_ = false;     // the latest event may be a failure
  bool somebody_done_ = false;  // a member of this world, or of one that it was formed around, exited with 0
  bool began_ = false;          // in this step
  int user_signal_ = 0, signals_ = 0;
  bool output_closed_ = false, job_timed_out_ = false;
  std::optional<core::Outcome> outcome_;
  std::optional<Instant> enough_since_;
  Instant now_{};
};

}  // namespace trainrun::sim
