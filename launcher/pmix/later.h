// Work for a thread of its own, in order. libpmix holds locks while it calls us, and wants to be answered
// from outside of that call.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace trainrun::pmix {

class Later {
 public:
  // The thread lives as long as the process.
  Later() {
    std::thread([this] {
      for (;;) next()();
    }).detach();
  }
  Later(const Later&) = delete;
  Later& operator=(const Later&) = delete;

  void run(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    some_.notify_one();
  }

 private:
  std::function<void()> next() {
    std::unique_lock lock(mutex_);
    some_.wait(lock, [this] { return !work_.empty(); });
    auto work = std::move(work_.front());
    work_.pop_front();
    return work;
  }

  std::mutex mutex_;
  std::condition_variable some_;
  std::deque<std::function<void()>> work_;
};

}  // namespace trainrun::pmix
