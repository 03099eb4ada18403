// The one event loop of a process: one thread runs it, and every callback of ours runs on that thread.
#pragma once

#include <functional>
#include <memory>

#include "launcher/base/time.h"

namespace boost::asio {
class io_context;
}

namespace trainrun::io {

class Loop {
 public:
  Loop();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void run();   // until stop(), or until nothing is left to wait for
  void stop();  // run() returns after the callback that runs now
  // Thread-safe: `work` runs on the loop's thread in a later turn. Keeps run() from ending until it has run.
  void post(std::function<void()> work);
  // The process's clock (clock.h), for whichever loop.
  [[nodiscard]] static Instant now();
  // From now on time for which the process stood still does not count, and no timer but arm_real() runs then.
  // Once in a process. The loop does not end by itself any more.
  void leave_out_stops();
  [[nodiscard]] boost::asio::io_context& context();

 private:
  void beat();

  std::unique_ptr<boost::asio::io_context> context_;
  struct Pulse;
  std::unique_ptr<Pulse> pulse_;
};

// One deadline. Destroying or re-arming it cancels the callback that was waiting.
class Timer {
 public:
  explicit Timer(Loop& loop);
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  // `when` as Loop::now() tells time.
  void arm(Instant when, std::function<void()> expired);
  // `when` as real_now() tells it: time goes on also while the process is stopped.
  void arm_real(Instant when, std::function<void()> expired);
  void disarm();
  [[nodiscard]] bool armed() const;

 private:
  struct State;
  void start(std::function<void()> expired);
  std::shared_ptr<State> state_;
};

}  // namespace trainrun::io
