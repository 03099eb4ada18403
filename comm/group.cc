#include "comm/group.h"

#include <fmt/format.h>

#include <utility>

namespace trainrun::comm {

Group::Group(int rank, int size, std::unique_ptr<Backend> backend, Duration op_timeout, Explain explain)
    : rank_(rank),
      size_(size),
      backend_(std::move(backend)),
      op_timeout_(op_timeout),
      explain_(std::move(explain)) {}

bool Group::broken() const {
  const std::lock_guard lock(mutex_);
  return failure_.has_value();
}

Failure Group::finish(Failure failure, const Descriptor& what) {
  failure.operation = name_of(what.call);
  failure.sequence = what.sequence;
  failure_ = failure;
  return failure;
}

template <class Move>
Outcome<void> Group::run(Descriptor what, Move move) {
  const std::lock_guard lock(mutex_);
  if (failure_) return tl::unexpected(*failure_);
  what.sequence = ++sequence_;
  call_ = what.call;
  ++mark_;
  const struct Ended {
    std::atomic<std::uint64_t>& mark;
    ~Ended() { ++mark; }
  } ended{mark_};
  const auto deadline = std::chrono::steady_clock::now() + op_timeout_;
  std::string text;
  const auto agreed = backend_->agree(what, deadline);
  if (agreed && *agreed) {
    const auto& other = **agreed;
    return tl::unexpected(finish(
        fail(TRC_MISMATCH, fmt::format("rank {} called {}, rank {} called {}", other.first_rank,
                                       describe(other.first), other.second_rank, describe(other.second)))
            .value(),
        what));
  }
  if (agreed) {
    const Moved moved = move(what, deadline);
    if (moved) return {};
    text = moved.error().text;
  } else {
    text = agreed.error().text;
  }
  const bool timed_out = std::chrono::steady_clock::now() >= deadline;
  return tl::unexpected(finish(explain_(describe(what), timed_out, text), what));
}

Outcome<void> Group::allreduce(const void* in, void* out, std::size_t count, trc_dtype dtype, trc_op op) {
  if (size_of(dtype) == 0)
    return fail(TRC_INVALID, fmt::format("{} is no element type", static_cast<int>(dtype)));
  if (reduce_kernel(dtype, op) == nullptr)
    return fail(TRC_INVALID, fmt::format("{} is no reduction", static_cast<int>(op)));
  if (count > 0 && (in == nullptr || out == nullptr)) return fail(TRC_INVALID, "allreduce of a null buffer");
  Descriptor what;
  what.call = Call::allreduce;
  what.count = count;
  what.dtype = dtype;
  what.op = op;
  return run(what, [&](Descriptor payload, Deadline deadline) -> Moved {
    if (count == 0) return {};
    if (needs_widening(dtype, op)) {
      payload.dtype = TRC_I64;
      auto wide = widened(in, count, dtype);
      if (auto moved = backend_->allreduce(wide.data(), wide.data(), payload, deadline); !moved) return moved;
      finish_mean(wide.data(), count, TRC_I64, size_);
      narrow(wide, out, dtype);
      return {};
    }
    if (auto moved = backend_->allreduce(in, out, payload, deadline); !moved) return moved;
    if (op == TRC_MEAN) finish_mean(out, count, dtype, size_);
    return {};
  });
}

Outcome<void> Group::broadcast(void* data, std::size_t count, trc_dtype dtype, int root) {
  if (size_of(dtype) == 0)
    return fail(TRC_INVALID, fmt::format("{} is no element type", static_cast<int>(dtype)));
  if (root < 0 || root >= size_)
    return fail(TRC_INVALID, fmt::format("there is no rank {} to broadcast from", root));
  if (count > 0 && data == nullptr) return fail(TRC_INVALID, "broadcast of a null buffer");
  Descriptor what;
  what.call = Call::broadcast;
  what.count = count;
  what.dtype = dtype;
  what.root = root;
  return run(what, [&](const Descriptor& payload, Deadline deadline) -> Moved {
    return count == 0 ? Moved{} : backend_->broadcast(data, payload, deadline);
  });
}

Outcome<void> Group::allgather(const void* in, void* out, std::size_t count, trc_dtype dtype) {
  if (size_of(dtype) == 0)
    return fail(TRC_INVALID, fmt::format("{} is no element type", static_cast<int>(dtype)));
  if (count > 0 && (in == nullptr || out == nullptr)) return fail(TRC_INVALID, "allgather of a null buffer");
  Descriptor what;
  what.call = Call::allgather;
  what.count = count;
  what.dtype = dtype;
  return run(what, [&](const Descriptor& payload, Deadline deadline) -> Moved {
    return count == 0 ? Moved{} : backend_->allgather(in, out, payload, deadline);
  });
}

Outcome<void> Group::barrier() {
  // To agree is to have met.
  return run({}, [](const Descriptor&, Deadline) -> Moved { return {}; });
}

}  // namespace trainrun::comm
