#include "launcher/io/stops.h"

#include <algorithm>

namespace trainrun::io {
namespace {

// Of a job that is stopped more often, only the length of the oldest is kept: moments before them are no
// longer told exactly.
constexpr std::size_t most_stops = 256;

}  // namespace

void Stops::add(Instant from, Instant until) {
  if (until <= from) return;
  if (stops_.size() == most_stops) {
    forgotten_ += stops_.front().length;
    stops_.erase(stops_.begin());
  }
  stops_.push_back({from, until - from});
  last_ = {from, until};
}

Instant Stops::running(Instant real) const {
  auto before = forgotten_;
  for (const auto& stop : stops_) {
    if (real <= stop.from) break;
    before += std::min<Duration>(real - stop.from, stop.length);
  }
  return real - before;
}

Instant Stops::real(Instant running) const {
  auto real = running + forgotten_;
  for (const auto& stop : stops_) {
    if (real < stop.from) break;
    real += stop.length;
  }
  return real;
}

}  // namespace trainrun::io
