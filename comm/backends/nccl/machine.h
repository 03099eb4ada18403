// The life of a communicator, as decisions: what its thread does next, given what NCCL answered, what is
// asked of it, and the time. Pure.
//
//   opening --> open --> closing --> gone
//      |         |          |         ^
//      +---------+----------+--> breaking
#pragma once

#include <optional>
#include <string>

#include "comm/backends/nccl/abi.h"
#include "launcher/base/time.h"

namespace trainrun::comm::nccl {

class Machine {
 public:
  enum class State { opening, open, closing, breaking, gone };
  enum class Do { start, poll, serve, finalize, destroy, abort, end };

  // Why it is over, or will be.
  struct Problem {
    enum class Kind {
      library,  // NCCL or CUDA failed here
      context,  // CUDA failed in a way that this process cannot get over
      peers,    // NCCL cannot reach another rank
      asked,    // from outside: the generation's end, or the time of an operation
      late,     // not open in time
    };
    Kind kind;
    std::string text;
  };

  // It has until then to be open, and this long to be gone once it breaks.
  Machine(Instant open_until, Duration abort_within) : open_until_(open_until), abort_within_(abort_within) {}

  // `handle`: NCCL has given one, which it has until destroy or abort.
  [[nodiscard]] Do next(bool handle);
  // `text`: of an answer that is an error.
  void answered(Do what, Answer answer, const std::string& text, Instant now);
  // CUDA failed, or NCCL in what was served.
  void failed(Problem problem, Instant now);
  void look_at_time(Instant now);
  // From outside, at any time.
  void abort(Instant now);
  void leave(Instant now);

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] bool busy() const { return busy_; }  // NCCL has not taken in yet what was served
  [[nodiscard]] const std::optional<Problem>& problem() const { return problem_; }
  // NCCL has not let go in time. Its threads and kernels may be anywhere: only a new process can go on.
  [[nodiscard]] bool stuck(Instant now) const;
  [[nodiscard]] Instant gone_until() const { return gone_until_; }

 private:
  void break_off(Problem problem, Instant now);

  State state_ = State::opening;
  Instant open_until_;
  Duration abort_within_;
  Instant gone_until_ = Instant::max();  // of closing and breaking
  bool started_ = false, busy_ = false, finalized_ = false, idle_ = false;
  std::optional<Problem> problem_;
};

// What an answer that is an error says about its cause.
Machine::Problem::Kind kind_of(Answer answer);

}  // namespace trainrun::comm::nccl
