// Operations that run on a thread of ours, and how a program hears that they have ended.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "comm/failure.h"
#include "launcher/base/fd.h"
#include "launcher/base/time.h"

namespace trainrun::comm {

// The works that have ended, for one reader who sleeps on a descriptor.
class Completions {
 public:
  static Outcome<std::shared_ptr<Completions>> make();
  // Readable as long as there is one that next() has not told.
  [[nodiscard]] int descriptor() const { return event_.get(); }
  void add(std::uint64_t tag);
  std::optional<std::uint64_t> next();

 private:
  explicit Completions(Fd event) : event_(std::move(event)) {}
  Fd event_;
  std::mutex mutex_;
  std::deque<std::uint64_t> ended_;
};

class Work {
 public:
  using Run = std::function<Outcome<void>()>;

  // `completions` may be null.
  Work(Run run, std::shared_ptr<Completions> completions, std::uint64_t tag)
      : run_(std::move(run)), completions_(std::move(completions)), tag_(tag) {}

  // Once, on the thread that it was given to: one of the two.
  void run();
  void refuse(const Failure& failure) { end(tl::unexpected(failure)); }

  [[nodiscard]] bool ended() const;
  // Of the steady clock; zero what has not happened.
  struct Times {
    std::chrono::nanoseconds begun{}, ended{};
  };
  [[nodiscard]] Times times() const;
  // What has become of it; nothing if it goes on when the time has passed. No time: however long it takes.
  std::optional<Outcome<void>> wait(std::optional<Duration> within);

 private:
  void end(Outcome<void> outcome);

  Run run_;
  std::shared_ptr<Completions> completions_;
  std::uint64_t tag_;
  mutable std::mutex mutex_;
  std::condition_variable end_;
  std::optional<Outcome<void>> outcome_;
  Times times_;
};

}  // namespace trainrun::comm
