// Where all ranks of a host wait for each other at the end of a step. It lies in shared memory and has no
// lock, so a rank that dies holds nothing; the others wait until somebody calls abort().
//
// Each rank says on a line of its own that it has come, and looks at the lines of the others: no rank writes
// where another one does, and what lies beside the word comes with it. Who sleeps is woken by the last to
// come.
#pragma once

#include <cstdint>

#include "comm/backends/shm/layout.h"
#include "launcher/base/fault.h"

namespace trainrun::comm {

class Gate {
 public:
  // `words` and `headers`, two for each rank, are zeros at first, and outlive this. `spins`: each rank has a
  // core of its own, so it pays to look again and again for a while; else cores are left to those who are
  // awaited. `step`: the first number (for tests).
  Gate(GateWords& words, Header* headers, std::uint32_t rank, std::uint32_t ranks, bool spins,
       std::uint32_t step = 0)
      : words_(words),
        headers_(headers),
        rank_(rank),
        ranks_(ranks),
        spins_(spins),
        faults_(!fault::configured().empty()),
        step_(step) {}

  // The step that is under way, from 0; its parity says which of two buffers are in use.
  [[nodiscard]] std::uint32_t step() const { return step_; }
  [[nodiscard]] Header& header(std::uint32_t rank, std::uint32_t step) const {
    return headers_[2 * rank + step % 2];
  }
  // Ends the step: returns when all ranks have. What they wrote before is visible after it.
  Moved pass(Deadline deadline);
  // From any thread of any rank: whoever waits, and whoever comes later, fails. Ends the gate for all ranks.
  void abort();

 private:
  Moved await_all(Deadline deadline);
  bool all_have_come(std::uint32_t& next) const;
  bool look_for_a_while(std::uint32_t& next) const;
  Moved sleep(std::uint32_t& next, Deadline deadline);

  GateWords& words_;
  Header* headers_;
  std::uint32_t rank_, ranks_;
  bool spins_;
  bool faults_;  // a step may be too short for the question
  std::uint32_t step_;
};

}  // namespace trainrun::comm
