#include "comm/recorder.h"

#include <ctime>

#include <algorithm>

namespace trainrun::comm {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;

std::uint64_t packed(Call call, trc_dtype dtype, Recorder::State state) {
  return static_cast<std::uint64_t>(call) |
         static_cast<std::uint64_t>(static_cast<std::uint8_t>(dtype)) << 8 |
         static_cast<std::uint64_t>(state) << 16;
}

std::int64_t count_of(std::chrono::steady_clock::time_point when) {
  return std::chrono::nanoseconds(when.time_since_epoch()).count();
}

// The clock of the last timer tick, which costs a fifth of the exact one.
std::int64_t about_now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

void Recorder::begin(const Descriptor& what, std::chrono::steady_clock::time_point now) {
  const auto number = begun_.load(relaxed) + 1;
  auto& slot = slots_[number % kept];
  slot.version.store(2 * number - 1, relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  slot.sequence.store(what.sequence, relaxed);
  slot.bytes.store(what.count * size_of(what.dtype), relaxed);
  slot.what.store(packed(what.call, what.dtype, State::runs), relaxed);
  slot.begun.store(count_of(now), relaxed);
  slot.ended.store(0, relaxed);
  slot.version.store(2 * number, std::memory_order_release);
  begun_.store(number, std::memory_order_release);
}

void Recorder::end(State state) {
  const auto number = begun_.load(relaxed);
  auto& slot = slots_[number % kept];
  const auto what = slot.what.load(relaxed) | static_cast<std::uint64_t>(state) << 16;
  // One part after the other: until the second is there the operation still runs for a reader.
  const auto ended = slot.bytes.load(relaxed) < exact_from ? std::max(about_now(), slot.begun.load(relaxed))
                                                           : count_of(std::chrono::steady_clock::now());
  slot.ended.store(ended, relaxed);
  slot.what.store(what, std::memory_order_release);
}

std::vector<Recorder::Operation> Recorder::read() const {
  std::vector<Operation> found;
  const auto last = begun_.load(std::memory_order_acquire);
  for (auto number = last - std::min<std::uint64_t>(last, kept); number++ < last;) {
    const auto& slot = slots_[number % kept];
    if (slot.version.load(std::memory_order_acquire) != 2 * number) continue;  // a newer one is there by now
    const auto what = slot.what.load(std::memory_order_acquire);
    Operation one;
    one.sequence = slot.sequence.load(relaxed);
    one.bytes = slot.bytes.load(relaxed);
    one.call = static_cast<Call>(what & 0xff);
    one.dtype = static_cast<trc_dtype>(what >> 8 & 0xff);
    one.state = static_cast<State>(what >> 16 & 0xff);
    one.begun = std::chrono::nanoseconds(slot.begun.load(relaxed));
    if (one.state != State::runs) one.ended = std::chrono::nanoseconds(slot.ended.load(relaxed));
    std::atomic_thread_fence(std::memory_order_acquire);
    if (slot.version.load(relaxed) == 2 * number) found.push_back(one);
  }
  return found;
}

}  // namespace trainrun::comm
