// How long the loop was held up by one of its callbacks: by its own work, and by calls that wait for
// something (a disk, a pipe, a lock). For -vvv and the tests of what must never hold it up. Time for which
// the thread could have run and another had the processor does not count, nor does a stop that the process
// made itself (^Z). One from outside looks like a call that blocks, should it fall into a turn.
//
// Whoever gives Asio a callback makes a Turn first thing in it. Costs nothing until measure() was called. To
// be used by the loop's thread alone.
#pragma once

#include <cstdint>

#include "launcher/base/time.h"

namespace trainrun::io {

class Turn {
 public:
  Turn();
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  static void measure();  // from now on
  struct Longest {
    std::uint64_t turns = 0;  // of which this was the longest
    Duration cpu{};
    Duration blocked{};
    std::int64_t blocking_calls = 0;
  };
  [[nodiscard]] static Longest longest();
  static void leave_out(Duration stop);  // the process has just stood still for so long

 private:
  bool outermost_ = false;
};

}  // namespace trainrun::io
