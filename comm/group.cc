#include "comm/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trainrun::comm {
namespace {

// For backends, which are told by abort() when the time has come.
constexpr Duration for_ever = std::chrono::hours(24 * 365 * 20);

}  // namespace

Group::Group(int rank, int size, std::unique_ptr<Backend> backend, Duration op_timeout, Explain explain,
             Links links)
    : rank_(rank),
      size_(size),
      backend_(std::move(backend)),
      op_timeout_(op_timeout),
      explain_(std::move(explain)),
      links_(std::move(links)) {}

std::uint32_t Group::world_rank(std::uint32_t member) const {
  return member < links_.world_ranks.size() ? links_.world_ranks[member] : member;
}

Failure Group::finish(Failure failure, const Descriptor& what) {
  failure.operation = name_of(what.call);
  failure.sequence = what.sequence;
  failure_ = failure;
  broken_ = true;
  return failure;
}

Failure Group::mismatch(const std::string& message, const Descriptor& what) {
  auto failure = finish(fail(TRC_MISMATCH, message).value(), what);
  if (links_.disagreed) links_.disagreed(failure);
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

Outcome<void> Group::run(const Descriptor& what, const Transfer& data) {
  const std::lock_guard lock(mutex_);
  return run_alone(what, data);
}

// With a sequence number already, it is another part of the operation that has just run.
Outcome<void> Group::run_alone(Descriptor what, const Transfer& data) {
  if (failure_) return tl::unexpected(*failure_);
  if (closed_) return fail(TRC_INVALID, fmt::format("{} after the world was finalized", name_of(what.call)));
  if (const char* const why = backend_->refuses(what))
    return fail(TRC_UNSUPPORTED, fmt::format("{}: {}", name_of(what.call), why));
  if (what.sequence == 0) what.sequence = ++sequence_;
  // The watcher reads these; they order nothing else.
  call_.store(what.call, std::memory_order_relaxed);
  mark_.store(2 * what.sequence - 1, std::memory_order_release);
  const struct Ended {
    std::atomic<std::uint64_t>& mark;
    std::uint64_t sequence;
    ~Ended() { mark.store(2 * sequence, std::memory_order_release); }
  } ended{mark_, what.sequence};
  const auto now = std::chrono::steady_clock::now();
  time_ends_.store(now + op_timeout_, std::memory_order_release);
  const auto performed = backend_->perform(what, data, now + for_ever);
  const bool timed_out = time_ends_.exchange(idle) == expired;
  if (performed && !*performed && !timed_out) return {};
  if (performed && *performed) {
    const auto& other = **performed;
    return tl::unexpected(
        mismatch(fmt::format("rank {} called {}, rank {} called {}", world_rank(other.first_rank),
                             describe(other.first, links_.world_ranks), world_rank(other.second_rank),
                             describe(other.second, links_.world_ranks)),
                 what));
  }
  const auto text = performed ? std::string() : performed.error().text;
  return tl::unexpected(finish(explain_(describe(what, links_.world_ranks), timed_out, text), what));
}

}  // namespace trainrun::comm
