// A number made of all that a brain decides and shows: a change that is to decide nothing otherwise keeps it.
#pragma once

#include <cstdint>

#include "launcher/core/job_machine.h"

namespace trainrun::sim {

class Digest {
 public:
  void add(const core::JobActions& actions, const core::JobMachine& machine);
  void add(const Digest& other) { mix(other.value_); }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  void mix(std::uint64_t value) { value_ = (value_ ^ value) * 1099511628211u; }

  std::uint64_t value_ = 14695981039346656037u;
};

}  // namespace trainrun::sim
