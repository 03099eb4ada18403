#include "comm/group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "launcher/base/hash.h"
#include "launcher/base/rank_ranges.h"
#include "rendezvous/messages.h"

namespace trainrun::comm {
namespace {

// For backends, which are told by abort() when the time has come.
constexpr Duration for_ever = std::chrono::hours(24 * 365 * 20);

constexpr std::size_t most_counts = 16;  // of allgatherv, in words

// One of two has joined, and `what`, which the other does, needs nothing of it but zeros.
bool can_go_on_without(const Disagreement& disagreement, const Descriptor& what) {
  const bool one_has_joined =
      (disagreement.first.call == Call::join) != (disagreement.second.call == Call::join);
  return one_has_joined && (what.call == Call::allreduce || what.call == Call::barrier);
}

constexpr std::size_t longest_list = 32;  // of ranks, in a pulse

}  // namespace

// Neither of the two numbers that mean something else.
std::uint32_t number_of(const std::string& group) {
  const auto sum = fnv1a(group);
  return std::clamp<std::uint32_t>(static_cast<std::uint32_t>(sum ^ sum >> 32), 1,
                                   rendezvous::Pulse::steps - 1);
}

std::string among(const std::vector<std::uint32_t>& ranks) {
  const auto list = as_ranges(ranks);
  return list.size() > longest_list ? fmt::format("among {} ranks", ranks.size()) : "among ranks " + list;
}

Group::Group(int rank, int size, std::unique_ptr<Backend> backend, Duration op_timeout, Explain explain,
             Links links)
    : rank_(rank),
      size_(size),
      backend_(std::move(backend)),
      op_timeout_(op_timeout),
      explain_(std::move(explain)),
      links_(std::move(links)),
      number_(links_.world_ranks.empty() ? rendezvous::Pulse::all_ranks : number_of(links_.name)),
      among_(links_.world_ranks.empty() ? "" : " " + among(links_.world_ranks)) {}

Group::Progress Group::progress() const {
  Progress its{mark_.load(), bytes_.load(), number_, static_cast<std::uint32_t>(size_), links_.operation};
  if (its.sequence() == 0 && !its.in_operation()) {
    its.operation.clear();
  } else if (its.operation.empty()) {
    its.operation = (its.sequence() == 0 ? "connecting" : name_of(call_.load())) + among_;
  }
  return its;
}

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
  disagreed_ = true;
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

Outcome<void> Group::connect(const std::function<Outcome<Moved>()>& connecting, Deadline deadline,
                             const std::function<Failure(const Outcome<Moved>& failed)>& why) {
  mark_.store(begin_of(0));
  time_ends_.store(deadline);
  auto connected = connecting();
  // What succeeds as its time passes has been aborted.
  if (time_ends_.exchange(idle) == expired && connected && *connected) *connected = tl::unexpected(Broken());
  Outcome<void> outcome;
  if (!connected || !*connected) outcome = tl::unexpected(why(connected));
  mark_.store(end_of(0));
  return outcome;
}

Outcome<void> Group::run(const Descriptor& what, const Transfer& data) {
  const std::lock_guard lock(mutex_);
  return run_alone(what, data);
}

// With a sequence number already, it is another part of the operation that has just run.
Outcome<void> Group::run_alone(Descriptor what, const Transfer& data) {
  if (what.sequence == 0) what.sequence = sequence_ + 1;
  for (;;) {
    auto attempted = attempt(what, data);
    if (!attempted) return tl::unexpected(attempted.error());
    if (!*attempted) return {};
    // Ranks that have joined have learned now what this is, and take part in it. They can only once, since
    // what they give then is no join.
    if (!can_go_on_without((**attempted), what))
      return tl::unexpected(disagreed(**attempted, what, data.counts));
  }
}

Outcome<void> Group::join() {
  const std::lock_guard lock(mutex_);
  for (;;) {
    auto joined = Descriptor();
    joined.call = Call::join;
    joined.sequence = sequence_ + 1;
    auto attempted = attempt(joined, {});
    if (!attempted) return tl::unexpected(attempted.error());
    if (!*attempted) return {};
    const auto& other = **attempted;
    const auto what = other.first.call == Call::join ? other.second : other.first;
    if (!can_go_on_without(other, what)) return tl::unexpected(disagreed(other, joined, {}));
    std::vector<char> zeros(what.count * size_of(what.dtype));
    if (auto helped = run_alone(what, {zeros.data(), zeros.data(), {}}); !helped) return helped;
  }
}

Outcome<std::optional<Disagreement>> Group::attempt(const Descriptor& what, const Transfer& data) {
  if (failure_) return tl::unexpected(*failure_);
  if (closed_) return fail(TRC_INVALID, fmt::format("{} after the world was finalized", name_of(what.call)));
  if (const char* const why = backend_->refuses(what))
    return fail(TRC_UNSUPPORTED, fmt::format("{}: {}", name_of(what.call), why));
  sequence_ = what.sequence;
  // The watcher reads these; they order nothing else.
  call_.store(what.call, std::memory_order_relaxed);
  bytes_.store(what.count * size_of(what.dtype), std::memory_order_relaxed);
  mark_.store(begin_of(what.sequence), std::memory_order_release);
  const auto now = std::chrono::steady_clock::now();
  recorder_.begin(what, now);
  struct Ended {
    Group& group;
    std::uint64_t sequence;
    Recorder::State state = Recorder::State::failed;
    ~Ended() {
      group.recorder_.end(state);
      group.mark_.store(end_of(sequence), std::memory_order_release);
    }
  } ended{*this, what.sequence};
  time_ends_.store(now + op_timeout_, std::memory_order_release);
  auto performed = backend_->perform(what, data, now + for_ever);
  const bool timed_out = time_ends_.exchange(idle) == expired;
  if (performed && (*performed || !timed_out)) {
    if (!*performed) ended.state = Recorder::State::done;
    return std::move(*performed);
  }
  const auto text = performed || timed_out ? std::string() : performed.error().text;
  auto told = what;
  if (backend_->sends() && what.call == Call::send && data.out == nullptr)
    told.root = rank_;  // else: the other
  const auto words = describe(told, static_cast<std::uint32_t>(rank_), links_.world_ranks);
  return tl::unexpected(finish(explain_(words + in_group(what), timed_out, text), what));
}

Failure Group::disagreed(const Disagreement& other, const Descriptor& what,
                         std::span<const std::uint64_t> counts) {
  auto text =
      fmt::format("rank {} called {}, rank {} called {}", world_rank(other.first_rank),
                  describe(other.first, other.first_rank, links_.world_ranks), world_rank(other.second_rank),
                  describe(other.second, other.second_rank, links_.world_ranks));
  if (other.odd) text += fmt::format(" (only rank {} differs)", world_rank(*other.odd));
  // Only a hash of them has travelled.
  if (what.call == Call::allgatherv && other.first.shape != other.second.shape)
    text += fmt::format("; their counts a rank differ, rank {} gave {}",
                        world_rank(static_cast<std::uint32_t>(rank_)),
                        fmt::join(counts.first(std::min(counts.size(), most_counts)), ", "));
  return mismatch(text + in_group(what), what);
}

// A pair's own operations name the other already.
std::string Group::in_group(const Descriptor& what) const {
  if (links_.world_ranks.empty() || what.call == Call::send) return {};
  return fmt::format(" in a group of ranks {}", as_ranges(links_.world_ranks));
}

}  // namespace trainrun::comm
