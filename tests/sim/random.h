// A seeded generator whose numbers are the same on every machine and with every library.
#pragma once

#include <cstdint>
#include <vector>

#include "launcher/base/time.h"

namespace trainrun::sim {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {  // splitmix64
    state_ += 0x9e3779b97f4a7c15u;
    auto z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  std::uint32_t below(std::uint32_t n) { return n == 0 ? 0 : static_cast<std::uint32_t>(next() % n); }
  int from_to(int least, int most) {
    return least + static_cast<int>(below(static_cast<std::uint32_t>(most - least + 1)));
  }
  bool percent(std::uint32_t chance) { return below(100) < chance; }
  Duration between(Duration least, Duration most) {
    return least + Duration(static_cast<std::int64_t>(
                       next() % static_cast<std::uint64_t>((most - least).count() + 1)));
  }
  template <class T>
  const T& pick(const std::vector<T>& some) {
    return some[below(static_cast<std::uint32_t>(some.size()))];
  }

 private:
  std::uint64_t state_;
};

}  // namespace trainrun::sim
