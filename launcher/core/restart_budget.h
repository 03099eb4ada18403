// How often a job may be restarted after failures: one budget for all hosts, in a sliding window. Planned
// changes of the world never come here.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/base/time.h"
#include "launcher/core/job_spec.h"

namespace trainrun::core {

// "in 1h00m", or "in the whole job" for a window that no job outlives.
std::string describe_window(const RestartLimit& limit);

// The flag that such a limit is given with.
std::string_view flag_of(const RestartLimit& limit);

// After so many failures in a row: 1 s, 2 s, 4 s ..., at most 30 s; nothing after none.
Duration backoff_after(int failures);

class RestartBudget {
 public:
  static constexpr int max_forgiven = 2;

  explicit RestartBudget(const RestartLimit& limit) : limit_(limit) {}

  [[nodiscard]] bool left(Instant now) const;
  // Takes one; false when none is left, and then nothing has changed.
  bool spend(Instant now);
  // The job works again: what was spent before makes no later restart wait. It stays spent. A job that works
  // for some seconds each time is in a crash loop as well: this counts `max_forgiven` times until it has
  // proved itself.
  void progressed();
  // The job has worked for long enough to be in no crash loop.
  void proved() { crashes_ = forgiven_ = 0; }
  // How long the restart that was taken last has to wait: the first within the window and since the job last
  // made progress not at all, the following ones as backoff_after() says.
  [[nodiscard]] Duration backoff() const;
  [[nodiscard]] int spent() const { return static_cast<int>(taken_.size()); }
  [[nodiscard]] int used(Instant now) const;  // within the window

 private:
  RestartLimit limit_;
  std::deque<Instant> taken_;  // within the window, oldest first
  int crashes_ = 0;            // of these, since progress last counted
  int forgiven_ = 0;           // how often it has, since the job last proved itself
};

}  // namespace trainrun::core
