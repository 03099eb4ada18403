#include "launcher/agent/worker_machine.h"

namespace trainrun::agent {

bool WorkerMachine::step(Event event) {
  switch (event) {
    case Event::spawned:
      if (state_ == State::ordered) state_ = State::spawned;
      return false;
    case Event::reaped:
      if (state_ != State::spawned) return false;
      state_ = open_pipes_ == 0 ? State::finished : State::exited;
      return state_ == State::finished;
    case Event::pipe_ended:
      if (open_pipes_ > 0) --open_pipes_;
      if (state_ != State::exited || open_pipes_ > 0) return false;
      state_ = State::finished;
      return true;
    case Event::drain_deadline:
      if (state_ != State::exited) return false;
      state_ = State::finished;
      return true;
  }
  return false;
}

}  // namespace trainrun::agent
