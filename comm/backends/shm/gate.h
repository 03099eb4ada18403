// Where all ranks of a host wait for each other at the end of a step. It lies in shared memory and has no
// lock, so a rank that dies holds nothing; the others wait until somebody calls abort().
#pragma once

#include <cstdint>

#include "comm/backends/shm/layout.h"

namespace trainrun::comm {

class Gate {
 public:
  // `words` are zero at first, as after `step` steps (for tests), and outlive this. `spins`: each rank has a
  // core of its own, so it pays to look again and again for a while; else cores are left to those who are
  // awaited.
  Gate(GateWords& words, std::uint32_t ranks, bool spins, std::uint32_t step = 0)
      : words_(words), ranks_(ranks), spins_(spins), step_(step) {}

  // The step that is under way, from 0; its parity says which of two buffers are in use.
  [[nodiscard]] std::uint32_t step() const { return step_; }
  // Ends the step: returns when all ranks have. What they wrote before is visible after it.
  Moved pass(Deadline deadline);
  // From any thread of any rank: whoever waits, and whoever comes later, fails. Ends the gate for all ranks.
  void abort();

 private:
  [[nodiscard]] bool settled(std::uint32_t turn, std::uint32_t goal) const;
  bool look_for_a_while(std::uint32_t goal) const;
  Moved sleep(std::uint32_t goal, Deadline deadline);

  GateWords& words_;
  std::uint32_t ranks_;
  bool spins_;
  std::uint32_t step_;
};

}  // namespace trainrun::comm
