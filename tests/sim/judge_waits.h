// How long everything is waited for: each deadline is armed by what it belongs to, for as long as the design
// says, and as long as what it waits for has not come.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "launcher/core/job_action.h"
#include "launcher/core/job_event.h"
#include "launcher/core/job_phase.h"
#include "tests/sim/scenario.h"

namespace trainrun::sim {

class Waits {
 public:
  Waits(const Scenario& scenario, std::function<void(std::string)> fail)
      : scenario_(scenario), fail_(std::move(fail)) {}

  void event(const core::JobEvent& event, Instant now);
  void action(const core::JobAction& action, Instant now);
  // `members_late`: some were there before, and not all have met, or some want the next world, and not all.
  // `dismissed`: somebody lives who has no place.
  void after_step(core::JobPhase phase, bool members_late, bool dismissed);
  [[nodiscard]] Instant asked_at() const { return asked_at_; }  // the first who wants the next world
  [[nodiscard]] bool armed(core::Deadline deadline) const { return armed_.contains(deadline); }
  [[nodiscard]] Instant at(core::Deadline deadline) const { return armed_.at(deadline); }

 private:
  void arms(core::Deadline deadline, Instant at);
  [[nodiscard]] bool suits(core::Deadline deadline, Instant at) const;
  [[nodiscard]] bool hurries(core::Deadline deadline, Instant at) const;
  void kills(const core::SignalWorkers& order);
  void check_end(core::JobPhase phase);
  void check_drain(core::JobPhase phase);
  void need(bool when, core::Deadline deadline, const char* why);
  void forbid(bool when, core::Deadline deadline, const char* why);
  [[nodiscard]] Duration gathering() const;

  const Scenario& scenario_;
  std::function<void(std::string)> fail_;
  Instant now_{}, began_{}, asked_at_{};
  std::map<core::Deadline, Instant> armed_;
  core::JobPhase phase_ = core::JobPhase::gathering;   // after the step before
  bool begins_ = false, world_begins_ = false;         // in this step
  bool asks_ = false;                                  // the latest event: a member wants its next place
  std::optional<core::Deadline> put_off_;              // it may be, in this step: reports arrive late
  std::set<core::Deadline> passed_;                    // since the phase, or the world, began
  std::optional<Instant> told_at_;                     // the world that runs came up
  std::optional<Instant> ends_at_;                     // no other generation follows
  bool user_asked_ = false, user_asks_again_ = false;  // the latter: in this step
  bool killed_ = false, killed_all_ = false;           // in this drain
  bool announced_leave_ = false;                       // in this step
};

}  // namespace trainrun::sim
