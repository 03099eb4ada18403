// What each operation of a group takes, checked and put in the words of backends.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

#include "comm/group.h"

namespace trainrun::comm {
namespace {

Descriptor descriptor(Call call, std::uint64_t count, trc_dtype dtype, int root = 0, std::uint32_t name = 0) {
  Descriptor what;
  what.call = call;
  what.count = count;
  what.dtype = dtype;
  what.root = root;
  what.name = name & ((1U << name_bits) - 1);
  return what;
}

tl::unexpected<Failure> null_buffer(Call call) {
  return fail(TRC_INVALID, fmt::format("{} of a null buffer", name_of(call)));
}

Outcome<void> check_reduction(trc_dtype dtype, trc_op op) {
  if (can_reduce(dtype, op)) return {};
  if (op < TRC_SUM || op > TRC_BXOR)
    return fail(TRC_INVALID, fmt::format("{} is no reduction", static_cast<int>(op)));
  return fail(TRC_INVALID, fmt::format("there is no {} of {}", name_of(op), name_of(dtype)));
}

Outcome<void> check_factors(Group::Factors factors) {
  if (std::isfinite(factors.before) && std::isfinite(factors.after)) return {};
  return fail(TRC_INVALID, "a factor that is not finite");
}

Outcome<void> check_type_of_list(const char* what, trc_dtype dtype) {
  if (dtype == TRC_F16 || dtype == TRC_BF16 || dtype == TRC_F32) return {};
  return fail(
      TRC_UNSUPPORTED,
      fmt::format("{} is {} in an allreduce of a list, which takes f16, bf16 and f32", what, name_of(dtype)));
}

bool aligned(const void* buffer, trc_dtype dtype) {
  return reinterpret_cast<std::uintptr_t>(buffer) % size_of(dtype) == 0;
}

}  // namespace

Outcome<void> Group::check_type(trc_dtype dtype, std::uint64_t count) const {
  const auto width = size_of(dtype);
  if (width == 0) return fail(TRC_INVALID, fmt::format("{} is no element type", static_cast<int>(dtype)));
  // Blocks of all ranks, in the widest type that anything is formed in.
  if (count > std::numeric_limits<std::int64_t>::max() / sizeof(double) / static_cast<std::uint64_t>(size_))
    return fail(TRC_INVALID, fmt::format("{} {} are more than fit into memory", count, name_of(dtype)));
  return {};
}

Outcome<void> Group::check_member(int rank) const {
  if (rank >= 0 && rank < size_) return {};
  return fail(TRC_INVALID, fmt::format("there is no rank {} among {}", rank, size_));
}

Outcome<void> Group::give(Call call, const void* in, void* out, std::size_t count, trc_dtype dtype, int root,
                          std::uint32_t name) {
  if (auto good = check_type(dtype, count); !good) return good;
  if (auto good = check_member(root); !good) return good;
  const bool gives = call != Call::scatter || rank_ == root;
  const bool gets = call != Call::gather || rank_ == root;
  if (count > 0 && ((gives && in == nullptr) || (gets && out == nullptr))) return null_buffer(call);
  return run(descriptor(call, count, dtype, root, name), {in, out, {}});
}

Outcome<void> Group::allreduce(const void* in, void* out, std::size_t count, trc_dtype dtype, trc_op op,
                               Factors factors, std::uint32_t name) {
  if (auto good = check_type(dtype, count); !good) return good;
  if (auto good = check_reduction(dtype, op); !good) return good;
  if (count > 0 && (in == nullptr || out == nullptr)) return null_buffer(Call::allreduce);
  const bool scaled = factors.before != 1 || factors.after != 1;
  if (scaled && !is_floating(dtype))
    return fail(TRC_INVALID, fmt::format("{} cannot be scaled, only f16, bf16, f32 and f64", name_of(dtype)));
  if (auto good = check_factors(factors); !good) return good;
  auto what = descriptor(Call::allreduce, count, dtype, 0, name);
  what.op = op;
  what.before = factors.before;
  what.after = factors.after;
  return run(what, {in, out, {}});
}

Outcome<void> Group::allreduce_list(std::span<const Tensor> tensors, trc_dtype wire, trc_op op,
                                    Factors factors) {
  auto what = descriptor(Call::allreduce, 0, wire);
  what.op = op;
  what.before = factors.before;
  what.after = factors.after;
  if (auto good = check_type(wire, 0); !good) return good;
  if (auto good = check_type_of_list("what travels", wire); !good) return good;
  if (auto good = check_reduction(wire, op); !good) return good;
  if (auto good = check_factors(factors); !good) return good;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& one = tensors[i];
    const auto name = fmt::format("tensor {}", i);
    if (auto good = check_type(one.dtype, one.count); !good) return good;
    if (auto good = check_type_of_list(name.c_str(), one.dtype); !good) return good;
    if (one.count > 0 && (one.in == nullptr || one.out == nullptr))
      return fail(TRC_INVALID, fmt::format("allreduce of a list: {} is a null buffer", name));
    if (!aligned(one.in, one.dtype) || !aligned(one.out, one.dtype))
      return fail(TRC_INVALID, fmt::format("allreduce of a list: {} is not aligned to its elements", name));
    what.count += one.count;
    if (auto good = check_type(wire, what.count); !good) return good;
  }
  if (const char* const why = backend_->refuses_lists())
    return fail(TRC_UNSUPPORTED, fmt::format("allreduce of a list: {}", why));
  return run(what, {nullptr, nullptr, {}, tensors});
}

Outcome<void> Group::reduce(const void* in, void* out, std::size_t count, trc_dtype dtype, trc_op op,
                            int root, std::uint32_t name) {
  if (auto good = check_type(dtype, count); !good) return good;
  if (auto good = check_reduction(dtype, op); !good) return good;
  if (auto good = check_member(root); !good) return good;
  if (count > 0 && (in == nullptr || (rank_ == root && out == nullptr))) return null_buffer(Call::reduce);
  auto what = descriptor(Call::reduce, count, dtype, root, name);
  what.op = op;
  return run(what, {in, out, {}});
}

Outcome<void> Group::reduce_scatter(const void* in, void* out, std::size_t count, trc_dtype dtype, trc_op op,
                                    std::uint32_t name) {
  if (auto good = check_type(dtype, count); !good) return good;
  if (auto good = check_reduction(dtype, op); !good) return good;
  if (count > 0 && (in == nullptr || out == nullptr)) return null_buffer(Call::reduce_scatter);
  auto what = descriptor(Call::reduce_scatter, count, dtype, 0, name);
  what.op = op;
  return run(what, {in, out, {}});
}

Outcome<void> Group::broadcast(void* data, std::size_t count, trc_dtype dtype, int root, std::uint32_t name) {
  return give(Call::broadcast, data, data, count, dtype, root, name);
}

Outcome<void> Group::allgather(const void* in, void* out, std::size_t count, trc_dtype dtype,
                               std::uint32_t name) {
  return give(Call::allgather, in, out, count, dtype, 0, name);
}

Outcome<void> Group::gather(const void* in, void* out, std::size_t count, trc_dtype dtype, int root,
                            std::uint32_t name) {
  return give(Call::gather, in, out, count, dtype, root, name);
}

Outcome<void> Group::scatter(const void* in, void* out, std::size_t count, trc_dtype dtype, int root,
                             std::uint32_t name) {
  return give(Call::scatter, in, out, count, dtype, root, name);
}

Outcome<void> Group::alltoall(const void* in, void* out, std::size_t count, trc_dtype dtype,
                              std::uint32_t name) {
  return give(Call::alltoall, in, out, count, dtype, 0, name);
}

Outcome<void> Group::allgatherv(const void* in, void* out, const std::uint64_t* counts, trc_dtype dtype,
                                std::uint32_t name) {
  if (counts == nullptr) return fail(TRC_INVALID, "allgatherv without counts");
  const std::span all(counts, static_cast<std::size_t>(size_));
  for (const auto count : all)
    if (auto good = check_type(dtype, count); !good) return good;
  const auto total = std::accumulate(all.begin(), all.end(), std::uint64_t{0});
  if ((total > 0 && out == nullptr) || (all[static_cast<std::size_t>(rank_)] > 0 && in == nullptr))
    return null_buffer(Call::allgatherv);
  auto what = descriptor(Call::allgatherv, total, dtype, 0, name);
  what.shape = shape_of(all);
  return run(what, {in, out, all});
}

// First all hear what each gives to each and expects of each; then all know whether that fits together, and
// how much goes where.
Outcome<void> Group::alltoallv(const void* in, const std::uint64_t* in_counts, void* out,
                               const std::uint64_t* out_counts, trc_dtype dtype, std::uint32_t name) {
  if (in_counts == nullptr || out_counts == nullptr) return fail(TRC_INVALID, "alltoallv without counts");
  const auto ranks = static_cast<std::size_t>(size_);
  std::vector<std::uint64_t> mine(in_counts, in_counts + ranks);
  mine.insert(mine.end(), out_counts, out_counts + ranks);
  for (const auto count : mine)
    if (auto good = check_type(dtype, count); !good) return good;
  const bool gives = std::any_of(mine.begin(), mine.begin() + size_, [](auto count) { return count > 0; });
  const bool gets = std::any_of(mine.begin() + size_, mine.end(), [](auto count) { return count > 0; });
  if ((gives && in == nullptr) || (gets && out == nullptr)) return null_buffer(Call::alltoallv);
  if (gives && gets && in == out && ranks > 1)
    return fail(TRC_INVALID, "alltoallv needs different buffers for what it gives and what it gets");
  if (backend_->sends()) {  // on a device nobody hears beforehand what the others give
    auto what = descriptor(Call::alltoallv, 0, dtype, 0, name);
    what.count = std::max(std::accumulate(mine.begin(), mine.begin() + size_, std::uint64_t{0}),
                          std::accumulate(mine.begin() + size_, mine.end(), std::uint64_t{0}));
    return run(what, {in, out, mine});
  }
  const std::lock_guard lock(mutex_);
  std::vector<std::uint64_t> all(2 * ranks * ranks);
  auto plan = descriptor(Call::alltoallv_plan, 2 * ranks, TRC_I64, 0, name);
  if (auto heard = run_alone(plan, {mine.data(), all.data(), {}}); !heard) return heard;
  auto what = descriptor(Call::alltoallv, 0, dtype);
  what.sequence = sequence_;
  std::vector<std::uint64_t> given(ranks * ranks);
  for (std::size_t from = 0; from < ranks; ++from)
    for (std::size_t to = 0; to < ranks; ++to) {
      const auto gives_it = all[2 * ranks * from + to], expects = all[2 * ranks * to + ranks + from];
      if (gives_it != expects)
        return tl::unexpected(mismatch(
            fmt::format("alltoallv as operation {}: rank {} gives {} elements to rank {}, which expects {}",
                        sequence_, world_rank(static_cast<std::uint32_t>(from)), gives_it,
                        world_rank(static_cast<std::uint32_t>(to)), expects),
            what));
      given[ranks * from + to] = gives_it;
    }
  what.shape = shape_of(given);
  return run_alone(what, {in, out, given});
}

Outcome<void> Group::barrier(std::uint32_t name) {
  return run(descriptor(Call::barrier, 0, TRC_U8, 0, name), {});
}

Outcome<void> Group::finalize() { return run(descriptor(Call::finalize, 0, TRC_U8, 0, 0), {}); }

// It is no operation of its own, so that ranks which wait more often than others are not ahead of them.
Outcome<void> Group::settle(void* event) {
  const std::lock_guard lock(mutex_);
  if (!backend_->sends()) return fail(TRC_INVALID, "the group is on no device");
  if (sequence_ == 0) return {};
  auto what = descriptor(Call::settle, 0, TRC_U8);
  what.sequence = sequence_;
  Transfer data;
  data.event = event;
  return run_alone(what, data);
}

std::vector<const Group*> Group::pairs() {
  const std::lock_guard lock(pairs_mutex_);
  std::vector<const Group*> made;
  for (const auto& [other, pair] : pairs_)
    if (pair.group != nullptr) made.push_back(pair.group);
  return made;
}

Outcome<void> Group::send(const void* data, std::size_t count, trc_dtype dtype, int to) {
  // What is given is not written to.
  return hand_over(data, const_cast<void*>(data), count, dtype, rank_, to);
}

Outcome<void> Group::receive(void* data, std::size_t count, trc_dtype dtype, int from) {
  return hand_over(data, data, count, dtype, from, from);
}

// Each two ranks that exchange something get a group of their own for it, when they first do; another for the
// way back, so that both may send before they receive.
Outcome<void> Group::hand_over(const void* in, void* out, std::size_t count, trc_dtype dtype, int from,
                               int other) {
  if (auto good = check_member(other); !good) return good;
  if (other == rank_) return fail(TRC_INVALID, "a rank cannot send to itself");
  if (auto good = check_type(dtype, count); !good) return good;
  if (count > 0 && in == nullptr) return null_buffer(Call::send);
  if (closed_) return fail(TRC_INVALID, "send after the world was finalized");
  const auto as_called = [&](Outcome<void> done) {
    if (!done) {
      done.error().operation = from == rank_ ? "send" : "recv";
      done.error().sequence = std::max<std::uint64_t>(done.error().sequence, 1);
    }
    return done;
  };
  if (backend_->sends())
    return as_called(run(descriptor(Call::send, count, dtype, other),
                         from == rank_ ? Transfer{in, nullptr, {}} : Transfer{nullptr, out, {}}));
  if (!links_.pair) return fail(TRC_UNSUPPORTED, "this group cannot send");
  const int to = from == rank_ ? other : rank_;
  auto& pair = [&]() -> Pair& {
    const std::lock_guard lock(pairs_mutex_);
    return pairs_[{from, to}];
  }();
  {
    const std::lock_guard lock(pair.mutex);
    if (pair.group == nullptr) {
      auto made = links_.pair(from, to);
      if (!made) return as_called(tl::unexpected(made.error()));
      pair.group = *made;
    }
  }
  const int root = (from == rank_) == (rank_ < other) ? 0 : 1;  // the lower rank is the pair's first
  return as_called(pair.group->run(descriptor(Call::send, count, dtype, root), {in, out, {}}));
}

}  // namespace trainrun::comm
