// What a disruption costs: whether a failure is paid for by a restart, belongs to the one that is under way,
// or ends the job. Ranks that are killed together, and hosts that lose power together, are noticed one after
// the other: what was there when a restart was paid belongs to it, once, until the world that it pays for has
// come up. Whoever comes anew pays for itself, or nothing would ever end. Pure.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "launcher/base/id.h"
#include "launcher/base/time.h"
#include "launcher/core/job_spec.h"
#include "launcher/core/restart_budget.h"

namespace trainrun::core {

class RestartPolicy {
 public:
  explicit RestartPolicy(const RestartLimit& limit) : limit_(limit), budget_(limit) {}

  struct Question {
    bool planned = false;             // no failure
    bool free = false;                // does not count against the restart budget
    std::optional<HostIndex> lost{};  // a host was lost
    std::vector<WorkerId> failed{};   // of the members, when a rank failed or a host was lost
  };
  enum class Decision : std::uint8_t {
    change,          // costs nothing
    same_restart,    // belongs to the one that is under way
    restart,         // takes one from the budget
    out_of_restarts  // there is none
  };
  [[nodiscard]] Decision decide(const Question& question, Instant now) const;
  // What was decided is done: a restart is taken, and what belonged to one does not belong to it again.
  void apply(Decision decision, const Question& question, Instant now);

  // A restart is under way, since then, or since the earlier failure of it.
  void begin(Instant since);
  // Its end belongs to the restart.
  void cover(WorkerId worker) { workers_.insert(worker); }
  void cover(HostIndex host) { hosts_.insert(host); }
  // True when the loss of the host belonged to it; it does so once.
  bool take(HostIndex host) { return since_ && hosts_.erase(host) > 0; }
  [[nodiscard]] std::optional<Instant> since() const { return since_; }
  // A back-off that those who go on need not keep, while they are enough: it is the restart's.
  void waive(Instant until) { waived_until_ = until; }
  [[nodiscard]] Instant waived_until() const { return waived_until_; }  // long ago: none was
  // The next world has come up, or none will; how long it took.
  Duration over(Instant now);

  // See RestartBudget.
  bool spend(Instant now) { return budget_.spend(now); }
  [[nodiscard]] bool left(Instant now) const { return budget_.left(now); }
  void progressed() { budget_.progressed(); }
  void proved() { budget_.proved(); }
  [[nodiscard]] Duration backoff() const { return budget_.backoff(); }
  [[nodiscard]] int spent() const { return budget_.spent(); }
  [[nodiscard]] int used(Instant now) const { return budget_.used(now); }
  [[nodiscard]] const RestartLimit& limit() const { return limit_; }

 private:
  [[nodiscard]] bool may_belong(const Question& question) const;

  RestartLimit limit_;
  RestartBudget budget_;
  std::optional<Instant> since_;
  Instant waived_until_{};
  std::set<WorkerId> workers_;
  std::set<HostIndex> hosts_;
};

}  // namespace trainrun::core
