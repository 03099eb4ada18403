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
  [[nodiscard]] static Instant now();
  [[nodiscard]] boost::asio::io_context& context();

 private:
  std::unique_ptr<boost::asio::io_context> context_;
};

// One deadline. Destroying or re-arming it cancels the callback that was waiting.
class Timer {
 public:
  explicit Timer(Loop& loop);
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  void arm(Instant when, std::function<void()> expired);
  void disarm();
  [[nodiscard]] bool armed() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace trainrun::io
