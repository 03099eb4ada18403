// The life of one worker as its agent sees it: ordered -> spawned -> exited -> finished, forward only. Pure.
//
// Finished means reaped, and its output is through: both pipes at their end, or the drain deadline has passed
// while something else (a grandchild) holds them open.
#pragma once

#include <cstdint>

namespace trainrun::agent {

class WorkerMachine {
 public:
  enum class State : std::uint8_t { ordered, spawned, exited, finished };
  enum class Event : std::uint8_t { spawned, reaped, pipe_ended, drain_deadline };

  // True if this event made the worker finished. Events that are late are ignored; see the table in the .cc.
  bool step(Event event);
  [[nodiscard]] State state() const { return state_; }
  // Reaped, but something still holds a pipe: the moment to arm the drain deadline.
  [[nodiscard]] bool draining() const { return state_ == State::exited; }

 private:
  State state_ = State::ordered;
  int open_pipes_ = 2;
};

}  // namespace trainrun::agent
