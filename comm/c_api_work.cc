// The C interface over Work, Lanes and Completions.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "comm/c_handles.h"
#include "comm/trainrun_work.h"
#include "comm/work.h"

using trainrun::comm::fail;
using trainrun::comm::Group;
using trainrun::comm::guarded;
using trainrun::comm::HomeProcess;
using trainrun::comm::invalid;
using trainrun::comm::Lanes;
using trainrun::comm::Outcome;

struct trc_work {
  std::shared_ptr<trainrun::comm::Work> work;
  std::uint32_t generation = 0;
  HomeProcess home{};
};
struct trc_completions {
  std::shared_ptr<trainrun::comm::Completions> completions;
  HomeProcess home{};
};

namespace {

// With what it points to that the caller need not keep.
struct Kept {
  trc_call call{};
  std::vector<std::uint64_t> in_counts{}, out_counts{};
};

Group::Factors factors_of(const trc_call& call) {
  return call.before == 0 && call.after == 0 ? Group::Factors() : Group::Factors{call.before, call.after};
}

Outcome<void> perform(Group& group, const Kept& kept) {
  const auto& c = kept.call;
  const auto dtype = static_cast<trc_dtype>(c.dtype);
  const auto op = static_cast<trc_op>(c.op);
  const auto* const in_counts = kept.in_counts.empty() ? nullptr : kept.in_counts.data();
  const auto* const out_counts = kept.out_counts.empty() ? nullptr : kept.out_counts.data();
  switch (c.kind) {
    case TRC_CALL_ALLREDUCE:
      return group.allreduce(c.in, c.out, c.count, dtype, op, factors_of(c), c.name);
    case TRC_CALL_REDUCE:
      return group.reduce(c.in, c.out, c.count, dtype, op, c.root, c.name);
    case TRC_CALL_REDUCE_SCATTER:
      return group.reduce_scatter(c.in, c.out, c.count, dtype, op, c.name);
    case TRC_CALL_BROADCAST:
      return group.broadcast(c.out, c.count, dtype, c.root, c.name);
    case TRC_CALL_ALLGATHER:
      return group.allgather(c.in, c.out, c.count, dtype, c.name);
    case TRC_CALL_ALLGATHERV:
      return group.allgatherv(c.in, c.out, out_counts, dtype, c.name);
    case TRC_CALL_GATHER:
      return group.gather(c.in, c.out, c.count, dtype, c.root, c.name);
    case TRC_CALL_SCATTER:
      return group.scatter(c.in, c.out, c.count, dtype, c.root, c.name);
    case TRC_CALL_ALLTOALL:
      return group.alltoall(c.in, c.out, c.count, dtype, c.name);
    case TRC_CALL_ALLTOALLV:
      return group.alltoallv(c.in, in_counts, c.out, out_counts, dtype, c.name);
    case TRC_CALL_SEND:
      return group.send(c.in, c.count, dtype, c.root);
    case TRC_CALL_RECV:
      return group.receive(c.out, c.count, dtype, c.root);
    case TRC_CALL_JOIN:
      return group.join();
    default:
      return group.barrier(c.name);
  }
}

Outcome<void> perform(Group& group, const std::vector<Kept>& calls) {
  for (const auto& one : calls)
    if (auto done = perform(group, one); !done) return done;
  return {};
}

int lane_of(const trc_call& call) {
  if (call.kind == TRC_CALL_SEND) return Lanes::to(call.root);
  if (call.kind == TRC_CALL_RECV) return Lanes::from(call.root);
  return Lanes::all_members;
}

Outcome<std::vector<Kept>> keep(const Group& group, const trc_call* calls, std::size_t count) {
  std::vector<Kept> kept(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& call = calls[i];
    // The first version's size: there is no shorter one, and of a longer one we know the beginning.
    if (call.struct_size < sizeof(trc_call) || call.struct_size != calls->struct_size)
      return fail(TRC_INVALID, "a trc_call without its struct_size");
    if (call.kind < TRC_CALL_ALLREDUCE || call.kind > TRC_CALL_JOIN)
      return fail(TRC_INVALID, fmt::format("{} is no kind of call", call.kind));
    if (call.name >= 1U << trainrun::comm::name_bits)
      return fail(TRC_INVALID, fmt::format("the number of a name is {}, not below 2^{}", call.name,
                                           trainrun::comm::name_bits));
    const bool handed_over = lane_of(call) != Lanes::all_members;
    if (handed_over && (call.root < 0 || call.root >= group.size()))
      return fail(TRC_INVALID, fmt::format("there is no rank {} among {}", call.root, group.size()));
    if (lane_of(call) != lane_of(*calls))
      return fail(TRC_INVALID, "sends, receives and what all ranks do cannot be one work");
    kept[i].call = call;
    const auto size = static_cast<std::size_t>(group.size());
    if (call.in_counts != nullptr) kept[i].in_counts.assign(call.in_counts, call.in_counts + size);
    if (call.out_counts != nullptr) kept[i].out_counts.assign(call.out_counts, call.out_counts + size);
  }
  return kept;
}

}  // namespace

trc_status trc_start(trc_group* group, const trc_call* calls, size_t count, trc_completions* completions,
                     uint64_t tag, trc_work** work) {
  if (group == nullptr || calls == nullptr || count == 0 || work == nullptr)
    return invalid("trc_start needs a group, a call and a place for the work");
  *work = nullptr;
  return guarded(*group, [&]() -> Outcome<void> {
    auto kept = keep(*group->group, calls, count);
    if (!kept) return tl::unexpected(kept.error());
    const auto lane = lane_of(kept->front().call);
    auto run = [inside = group->group, kept = std::move(*kept)] { return perform(*inside, kept); };
    auto made = std::make_shared<trainrun::comm::Work>(
        std::move(run), completions == nullptr ? nullptr : completions->completions, tag);
    auto handle = std::make_unique<trc_work>(trc_work{made, group->generation});
    group->lanes->add(lane, std::move(made));
    *work = handle.release();
    return {};
  });
}

trc_status trc_run(trc_group* group, const trc_call* calls, size_t count) {
  if (group == nullptr || calls == nullptr || count == 0) return invalid("trc_run needs a group and a call");
  return guarded(*group, [&]() -> Outcome<void> {
    const auto kept = keep(*group->group, calls, count);
    if (!kept) return tl::unexpected(kept.error());
    group->lanes->drain(lane_of(kept->front().call));
    return perform(*group->group, *kept);
  });
}

int trc_work_ended(const trc_work* work) {
  return work != nullptr && work->home.here() && work->work->ended() ? 1 : 0;
}

void trc_work_times(const trc_work* work, int64_t* begun_ns, int64_t* ended_ns) {
  if (work == nullptr || begun_ns == nullptr || ended_ns == nullptr || !work->home.here()) return;
  const auto times = work->work->times();
  *begun_ns = times.begun.count();
  *ended_ns = times.ended.count();
}

trc_status trc_work_wait(trc_work* work, int64_t timeout_ms) {
  if (work == nullptr) return invalid("trc_work_wait for no work");
  if (!work->home.here()) return trainrun::comm::not_here();
  return guarded(
      [&]() -> Outcome<void> {
        // Longer than any operation lasts, and short enough to be added to the time of day.
        constexpr std::int64_t longest_ms = std::int64_t{1000} * 60 * 60 * 24 * 365;
        std::optional<trainrun::Duration> within;
        if (timeout_ms >= 0) within = trainrun::milliseconds(std::min(timeout_ms, longest_ms));
        auto outcome = work->work->wait(within);
        if (outcome) return *outcome;
        return fail(TRC_TIMEOUT, fmt::format("the work has not ended within {}; it goes on",
                                             trainrun::format_duration(*within)));
      },
      work->generation);
}

void trc_work_free(trc_work* work) {
  if (work == nullptr || work->home.here())
    delete work;
  else
    trainrun::comm::abandon(work);
}

trc_status trc_completions_new(trc_completions** completions) {
  if (completions == nullptr) return invalid("trc_completions_new needs a place for them");
  *completions = nullptr;
  return guarded([&]() -> Outcome<void> {
    auto made = trainrun::comm::Completions::make();
    if (!made) return tl::unexpected(made.error());
    *completions = new trc_completions{std::move(*made)};
    return {};
  });
}

int trc_completions_descriptor(const trc_completions* completions) {
  return completions->completions->descriptor();
}

int trc_completions_next(trc_completions* completions, uint64_t* tag) {
  if (completions == nullptr || tag == nullptr || !completions->home.here()) return 0;
  const auto next = completions->completions->next();
  if (next) *tag = *next;
  return next ? 1 : 0;
}

void trc_completions_free(trc_completions* completions) {
  if (completions == nullptr || completions->home.here())
    delete completions;
  else
    trainrun::comm::abandon(completions);
}
