#include "launcher/core/ending.h"

#include <algorithm>

namespace trainrun::core {
namespace {

// The same signal again within this is the same press of a key.
constexpr Duration one_press = milliseconds(500);
constexpr Duration enough_for_most = seconds(60);

}  // namespace

Ending::Request Ending::request(const UserSignal& signal, Instant now) {
  if (requests_ > 0 && signal.number == last_signal_ && now - last_at_ < one_press)
    return Request::same_press;
  if (requests_ == 0) requested_at_ = now;
  last_signal_ = signal.number;
  last_at_ = now;
  if (++requests_ == 2) hurried_at_ = now;
  return requests_ == 1 ? Request::first : requests_ == 2 ? Request::second : Request::third;
}

void Ending::drain(int signal, Instant now) {
  signal_ = signal;
  since_ = now;
  killed_ = false;
}

std::optional<Duration> Ending::grace_to_advise(Duration grace) {
  if (std::exchange(advised_, true)) return std::nullopt;
  return std::max<Duration>(enough_for_most, 3 * grace);
}

}  // namespace trainrun::core
