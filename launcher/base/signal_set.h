// Which signals: a value that travels as a number.
#pragma once

#include <cstdint>

namespace trainrun {

struct SignalSet {
  static constexpr int most = 65;  // signals are 1..64

  std::uint64_t bits = 0;  // signal n is bit n - 1

  void add(int number) { bits |= bit(number); }
  [[nodiscard]] bool contains(int number) const { return (bits & bit(number)) != 0; }

  friend bool operator==(const SignalSet&, const SignalSet&) = default;

 private:
  static constexpr std::uint64_t bit(int number) {
    return number > 0 && number < most ? std::uint64_t{1} << (number - 1) : 0;
  }
};

}  // namespace trainrun
