#include "launcher/output/farewell.h"

#include <algorithm>
#include <utility>

namespace trainrun::output {
void Farewell::start(std::vector<Sink> sinks, std::function<void()> over) {
  sinks_.clear();
  limit_.reset();
  for (auto& sink : sinks) sinks_.push_back({std::move(sink)});
  over_ = std::move(over);
  look();
}

void Farewell::limit(Instant until) {
  limit_ = std::min(until, limit_.value_or(until));
  look();
}

void Farewell::look() {
  if (!over_) return;
  const auto now = io::Loop::now();
  std::optional<Instant> next;
  for (auto& it : sinks_) {
    const auto waiting = it.over ? std::nullopt : it.sink.waiting();
    if (!waiting) continue;
    if (!it.seen || *waiting < *it.seen) it.since = now;
    it.seen = waiting;
    const auto ends = it.since + it.sink.time_limit;
    const auto until = std::min(ends, limit_.value_or(ends));
    if (now >= until) {
      it.over = true;
      it.sink.give_up();
      continue;
    }
    const bool will_tell = it.sink.still_waits && !it.told;
    if (will_tell && now >= it.since + it.sink.patience) {
      it.told = true;
      it.sink.still_waits(*waiting, until - now);
    }
    const auto look_at = will_tell && !it.told ? std::min(until, it.since + it.sink.patience) : until;
    next = std::min(look_at, next.value_or(look_at));
  }
  if (next) return timer_.arm(*next, [this] { look(); });
  timer_.disarm();
  const auto over = std::exchange(over_, nullptr);
  over();
}

}  // namespace trainrun::output
