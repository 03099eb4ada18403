// How far the end has come: how often the user has asked for it, and how a drain goes from TERM to KILL.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "launcher/base/time.h"
#include "launcher/core/job_event.h"

namespace trainrun::core {

class Ending {
 public:
  // A signal of the user, or `ctl end`.
  enum class Request : std::uint8_t {
    same_press,  // a terminal sends one press to the whole group, and timeout(1) passes on what it got as
                 // well
    first,       // the job is to end
    second,      // at once
    third        // exit without waiting
  };
  Request request(const UserSignal& signal, Instant now);
  [[nodiscard]] int requests() const { return requests_; }
  // Of the first.
  [[nodiscard]] Instant requested_at() const { return requested_at_; }
  // Of the second, if there was one.
  [[nodiscard]] std::optional<Instant> hurried_at() const { return hurried_at_; }

  // A drain begins; who is to end gets this signal.
  void drain(int signal, Instant now);
  [[nodiscard]] Instant drains_since() const { return since_; }
  [[nodiscard]] int drain_signal() const { return signal_; }
  // True once in a drain: SIGKILL is to be sent.
  bool kill() { return !std::exchange(killed_, true); }
  // The grace passed, and ranks had to be killed: a longer one, to be advised once in a job. A checkpoint
  // that was cut short most likely needed not much more.
  std::optional<Duration> grace_to_advise(Duration grace);
  // True once in a job: the last output is waited for.
  bool wait_for_output() { return !std::exchange(output_waits_, true); }

 private:
  int requests_ = 0;
  int last_signal_ = 0;
  Instant requested_at_{}, last_at_{}, since_{};
  std::optional<Instant> hurried_at_;
  int signal_ = 0;
  bool killed_ = false, advised_ = false, output_waits_ = false;
};

}  // namespace trainrun::core
