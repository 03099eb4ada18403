#include "comm/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trainrun::comm {
namespace {

// For backends, which are told by abort() when the time has come.
constexpr Duration for_ever = std::chrono::hours(24 * 365 * 20);

}  // namespace

Group::Group(int rank, int size, std::unique_ptr<Backend> backend, Duration op_timeout, Explain explain)
    : rank_(rank),
      size_(size),
      backend_(std::move(backend)),
      op_timeout_(op_timeout),
      explain_(std::move(explain)) {}

Failure Group::finish(Failure failure, const Descriptor& what) {
  failure.operation = name_of(what.call);
  failure.sequence = what.sequence;
  failure_ = failure;
  broken_ = true;
  return failure;
}

Duration Group::time_left(Instant now) const {
  const auto ends = time_ends_.load();
  return ends == idle || ends == expired ? op_timeout_ : std::max<Duration>(ends - now, milliseconds(1));
}

void Group::look_at_time(Instant now, Duration stood_still) {
  auto ends = time_ends_.load();
  if (ends == idle || ends == expired) return;
  const auto later = ends + stood_still;
  // It may end, and the next begin, at any moment: then this changes nothing.
  if (now < later)
    time_ends_.compare_exchange_strong(ends, later);
  else if (time_ends_.compare_exchange_strong(ends, expired))
    backend_->abort();
}

Outcome<void> Group::run(Descriptor what, const Transfer& data) {
  const std::lock_guard lock(mutex_);
  if (failure_) return tl::unexpected(*failure_);
  if (closed_) return fail(TRC_INVALID, fmt::format("{} after the world was finalized", name_of(what.call)));
  what.sequence = ++sequence_;
  call_ = what.call;
  ++mark_;
  const struct Ended {
    std::atomic<std::uint64_t>& mark;
    ~Ended() { ++mark; }
  } ended{mark_};
  const auto now = std::chrono::steady_clock::now();
  time_ends_ = now + op_timeout_;
  const auto performed = backend_->perform(what, data, now + for_ever);
  const bool timed_out = time_ends_.exchange(idle) == expired;
  if (performed && !*performed && !timed_out) return {};
  if (performed && *performed) {
    const auto& other = **performed;
    return tl::unexpected(finish(
        fail(TRC_MISMATCH, fmt::format("rank {} called {}, rank {} called {}", other.first_rank,
                                       describe(other.first), other.second_rank, describe(other.second)))
            .value(),
        what));
  }
  const auto text = performed ? std::string() : performed.error().text;
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
  if (!needs_widening(dtype, op)) return run(what, {in, out, count, dtype});
  auto wide = widened(in, count, dtype);
  auto reduced = run(what, {wide.data(), wide.data(), count, TRC_I64});
  if (reduced) narrow(wide, out, dtype);
  return reduced;
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
  return run(what, {data, data, count, dtype});
}

Outcome<void> Group::allgather(const void* in, void* out, std::size_t count, trc_dtype dtype) {
  if (size_of(dtype) == 0)
    return fail(TRC_INVALID, fmt::format("{} is no element type", static_cast<int>(dtype)));
  if (count > 0 && (in == nullptr || out == nullptr)) return fail(TRC_INVALID, "allgather of a null buffer");
  Descriptor what;
  what.call = Call::allgather;
  what.count = count;
  what.dtype = dtype;
  return run(what, {in, out, count, dtype});
}

Outcome<void> Group::barrier() { return run({}, {}); }

}  // namespace trainrun::comm
