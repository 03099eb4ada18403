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
    if (!it.seen || *waiting < *it.seen) it.until = now + it.sink.time_limit;
    it.seen = waiting;
    const auto until = std::min(it.until, limit_.value_or(it.until));
    if (now >= until) {
      it.over = true;
      it.sink.give_up();
    } else {
      next = std::min(until, next.value_or(until));
    }
  }
  if (next) return timer_.arm(*next, [this] { look(); });
  timer_.disarm();
  const auto over = std::exchange(over_, nullptr);
  over();
}

}  // namespace trainrun::output
