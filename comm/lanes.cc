#include "comm/lanes.h"

#include <algorithm>
#include <deque>
#include <thread>
#include <vector>

#include "comm/quiet_threads.h"

namespace trainrun::comm {
namespace {

Failure not_begun() {
  return fail(TRC_ABORTED, "the operation was not begun: the program has ended its group or its world")
      .value();
}

}  // namespace

struct Lane::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::shared_ptr<Work>> waiting;
  std::uint64_t added = 0, ended = 0;
  bool running = false, closed = false;
};

Lane::Lane() : state_(std::make_shared<State>()) {
  const QuietThreads quiet;
  std::thread([state = state_] { serve(*state); }).detach();
}

void Lane::serve(State& state) {
  std::unique_lock lock(state.mutex);
  while (true) {
    state.changed.wait(lock, [&] { return state.closed || !state.waiting.empty(); });
    if (state.waiting.empty()) return;
    const auto work = std::move(state.waiting.front());
    state.waiting.pop_front();
    state.running = true;
    lock.unlock();
    work->run();
    lock.lock();
    state.running = false;
    ++state.ended;
    state.changed.notify_all();
  }
}

void Lane::add(std::shared_ptr<Work> work) {
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->closed) {
      state_->waiting.push_back(std::move(work));
      ++state_->added;
      state_->changed.notify_all();
      return;
    }
  }
  work->refuse(not_begun());
}

void Lane::drain() {
  std::unique_lock lock(state_->mutex);
  const auto until = state_->added;
  state_->changed.wait(lock, [&] { return state_->ended >= until || state_->closed; });
}

bool Lane::idle() const {
  const std::lock_guard lock(state_->mutex);
  return state_->waiting.empty() && !state_->running;
}

void Lane::close() {
  std::deque<std::shared_ptr<Work>> refused;
  {
    const std::lock_guard lock(state_->mutex);
    state_->closed = true;
    refused.swap(state_->waiting);
    state_->changed.notify_all();
  }
  for (const auto& work : refused) work->refuse(not_begun());
}

bool Lane::settle(Instant until) {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_until(lock, until, [&] { return !state_->running; });
}

void Lanes::add(int lane, std::shared_ptr<Work> work) {
  const std::lock_guard lock(mutex_);
  used_ = true;
  lanes_[lane].add(std::move(work));
}

void Lanes::drain(int lane) {
  if (!used_) return;
  auto* const found = [&]() -> Lane* {
    const std::lock_guard lock(mutex_);
    const auto at = lanes_.find(lane);
    return at == lanes_.end() ? nullptr : &at->second;
  }();
  if (found != nullptr) found->drain();
}

void Lanes::drain() {
  if (!used_) return;
  std::vector<Lane*> all;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [number, lane] : lanes_) all.push_back(&lane);
  }
  for (auto* const lane : all) lane->drain();
}

bool Lanes::idle() {
  const std::lock_guard lock(mutex_);
  return std::all_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane.second.idle(); });
}

bool Lanes::close(Instant until) {
  const std::lock_guard lock(mutex_);
  bool all = true;
  for (auto& [number, lane] : lanes_) lane.close();
  for (auto& [number, lane] : lanes_) all = lane.settle(until) && all;
  return all;
}

}  // namespace trainrun::comm
