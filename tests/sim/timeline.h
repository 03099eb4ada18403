// The manual clock: what will happen, in the order of time; what happens at the same time, in a seeded order.
#pragma once

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "tests/sim/random.h"

namespace trainrun::sim {

class Timeline {
 public:
  using Work = std::function<void()>;

  explicit Timeline(std::uint64_t seed) : random_(seed) {}

  [[nodiscard]] Instant now() const { return now_; }
  void at(Instant when, Work work) {
    entries_.push_back({std::max(when, now_), random_.next() >> 24, std::move(work)});
    std::push_heap(entries_.begin(), entries_.end(), later);
  }
  void in(Duration wait, Work work) { at(now_ + wait, std::move(work)); }
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] Instant next() const { return entries_.front().at; }
  void step() {
    std::pop_heap(entries_.begin(), entries_.end(), later);
    auto entry = std::move(entries_.back());
    entries_.pop_back();
    now_ = entry.at;
    entry.work();
  }

 private:
  struct Entry {
    Instant at;
    std::uint64_t turn;
    Work work;
  };
  static bool later(const Entry& a, const Entry& b) {
    return std::pair(a.at, a.turn) > std::pair(b.at, b.turn);
  }

  Random random_;
  Instant now_{seconds(1000)};
  std::vector<Entry> entries_;
};

}  // namespace trainrun::sim
