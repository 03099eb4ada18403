#include "comm/backends/nccl/machine.h"

#include <utility>

namespace trainrun::comm::nccl {

Machine::Problem::Kind kind_of(Answer answer) {
  // A connection that breaks is a system error at one end and a remote one at the other.
  return answer == Answer::remote_error || answer == Answer::system_error ? Machine::Problem::Kind::peers
                                                                          : Machine::Problem::Kind::library;
}

Machine::Do Machine::next(bool handle) {
  switch (state_) {
    case State::opening:
      return started_ ? Do::poll : Do::start;
    case State::open:
      return busy_ ? Do::poll : Do::serve;
    case State::closing:
      if (!handle) break;
      return !finalized_ ? Do::finalize : idle_ ? Do::destroy : Do::poll;
    case State::breaking:
      if (!handle) break;
      return Do::abort;
    case State::gone:
      return Do::end;
  }
  state_ = State::gone;
  return Do::end;
}

void Machine::answered(Do what, Answer answer, const std::string& text, Instant now) {
  const bool taken = answer == Answer::success || answer == Answer::in_progress;
  switch (what) {
    case Do::abort:
    case Do::destroy:
      state_ = State::gone;  // whatever it answered, the handle is not to be used again
      return;
    case Do::end:
      return;
    case Do::start:
      started_ = true;
      break;
    case Do::finalize:
      finalized_ = true;
      break;
    case Do::serve:
      busy_ = answer == Answer::in_progress;
      break;
    case Do::poll:
      if (answer != Answer::success) break;
      busy_ = false;
      if (state_ == State::opening) state_ = State::open;
      idle_ = state_ == State::closing && finalized_;
      break;
  }
  if (!taken) break_off({kind_of(answer), text}, now);
}

void Machine::failed(Problem problem, Instant now) { break_off(std::move(problem), now); }

void Machine::look_at_time(Instant now) {
  if (state_ == State::opening && now >= open_until_)
    break_off({Problem::Kind::late, "the communicator was not there in time"}, now);
  // One that does not close is broken off; for that it has as long again.
  if (state_ == State::closing && now >= gone_until_)
    break_off({Problem::Kind::late, "the communicator did not close in time"}, now);
}

void Machine::abort(Instant now) { break_off({Problem::Kind::asked, "it was aborted"}, now); }

void Machine::leave(Instant now) {
  if (state_ == State::opening) return abort(now);
  if (state_ != State::open) return;
  state_ = State::closing;
  gone_until_ = now + abort_within_;
}

bool Machine::stuck(Instant now) const {
  return (state_ == State::breaking || state_ == State::gone) && now >= gone_until_;
}

void Machine::break_off(Problem problem, Instant now) {
  if (state_ == State::breaking || state_ == State::gone) return;
  state_ = State::breaking;
  gone_until_ = now + abort_within_;
  problem_ = std::move(problem);
}

}  // namespace trainrun::comm::nccl
