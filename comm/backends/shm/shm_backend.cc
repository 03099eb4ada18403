#include "comm/backends/shm/shm_backend.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace trainrun::comm {
namespace {

// Up to so many bytes of all ranks together each rank reduces everything itself, and one step is enough.
constexpr std::size_t small_together = std::size_t{64} << 10;

void copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

const char* bytes_of(const void* data) { return static_cast<const char*>(data); }
char* bytes_of(void* data) { return static_cast<char*>(data); }

}  // namespace

ShmBackend::ShmBackend(Segment segment, std::uint32_t rank, std::uint32_t ranks, bool spins)
    : segment_(std::move(segment)),
      layout_(segment_.data(), ranks),
      gate_(layout_.control().gate, ranks, spins),
      rank_(rank),
      ranks_(ranks) {}

Performed ShmBackend::perform(const Descriptor& what, const Transfer& data, Deadline deadline) {
  what_ = &what;
  deadline_ = deadline;
  first_step_ = true;
  layout_.header(rank_, gate_.step()).what = what;
  const auto done = dispatch(data);
  if (done) return std::nullopt;
  if (const auto* disagreement = std::get_if<Disagreement>(&done.error())) return *disagreement;
  return tl::unexpected(std::get<Broken>(done.error()));
}

ShmBackend::Step ShmBackend::dispatch(const Transfer& data) {
  switch (what_->call) {
    case Call::allreduce:
      return data.count * size_of(data.dtype) * ranks_ <= small_together ? small_allreduce(data)
                                                                         : large_allreduce(data);
    case Call::broadcast:
      return broadcast(data);
    case Call::allgather:
      return allgather(data);
    case Call::barrier:
      break;
  }
  return pass();
}

ShmBackend::Step ShmBackend::pass() {
  const auto step = gate_.step();
  if (auto passed = gate_.pass(deadline_); !passed) return tl::unexpected(Stop(passed.error()));
  if (!std::exchange(first_step_, false)) return {};
  // Everybody looks at the same headers, and so finds the same two ranks.
  const auto& first = layout_.header(0, step).what;
  for (std::uint32_t rank = 1; rank < ranks_; ++rank) {
    const auto& other = layout_.header(rank, step).what;
    if (!(first == other)) return tl::unexpected(Stop(Disagreement{0, rank, first, other}));
  }
  return {};
}

template <class Put, class Take>
ShmBackend::Step ShmBackend::in_steps(std::size_t pieces, Put put, Take take) {
  for (std::size_t i = 0; i < pieces; ++i) {
    put(i);
    if (i > 0) take(i - 1);
    if (auto passed = pass(); !passed) return passed;
  }
  take(pieces - 1);
  return {};
}

ShmBackend::Step ShmBackend::small_allreduce(const Transfer& data) {
  copy(now(rank_), data.in, data.count * size_of(data.dtype));
  if (auto passed = pass(); !passed) return passed;
  // In the order of the ranks, so that all get the same sum of floats.
  const auto reduce = reduce_kernel(data.dtype, what_->op);
  reduce(data.out, before(0), before(1), data.count);
  for (std::uint32_t rank = 2; rank < ranks_; ++rank) reduce(data.out, data.out, before(rank), data.count);
  if (what_->op == TRC_MEAN) finish_mean(data.out, data.count, data.dtype, static_cast<int>(ranks_));
  return {};
}

// Each rank reduces its part of every piece, one step after the piece was put there, and all take the results
// one step later; so there is one step a piece. A rank's own part never leaves its buffer.
ShmBackend::Step ShmBackend::large_allreduce(const Transfer& data) {
  const auto width = size_of(data.dtype);
  const auto reduce = reduce_kernel(data.dtype, what_->op);
  const Cut cut{data.count * width, shm_piece};
  struct Part {
    std::size_t begin, length;
  };
  const auto part_of = [&](std::size_t index) -> Part {
    const auto length = cut.length(index);
    const auto lines = (length + cache_line - 1) / cache_line;
    const auto begin = std::min(length, lines * rank_ / ranks_ * cache_line);
    return {begin, std::min(length, lines * (rank_ + 1) / ranks_ * cache_line) - begin};
  };
  const auto put = [&](std::size_t i) {
    const auto [begin, length] = part_of(i);
    const auto* from = bytes_of(data.in) + cut.at(i);
    copy(now(rank_), from, begin);
    copy(now(rank_) + begin + length, from + begin + length, cut.length(i) - begin - length);
  };
  const auto reduce_own = [&](std::size_t i) {
    const auto [begin, length] = part_of(i);
    const auto count = length / width;
    if (count == 0) return;
    auto* const to = layout_.result(gate_.step()) + begin;
    const auto from = [&, begin = begin](std::uint32_t rank) {
      return rank == rank_ ? bytes_of(data.in) + cut.at(i) + begin : before(rank) + begin;
    };
    reduce(to, from(0), from(1), count);
    for (std::uint32_t rank = 2; rank < ranks_; ++rank) reduce(to, to, from(rank), count);
    if (what_->op == TRC_MEAN) finish_mean(to, count, data.dtype, static_cast<int>(ranks_));
  };
  const auto take = [&](std::size_t i) {
    copy(bytes_of(data.out) + cut.at(i), layout_.result(gate_.step() - 1), cut.length(i));
  };
  const auto pieces = cut.pieces();
  for (std::size_t i = 0; i <= pieces; ++i) {
    if (i < pieces) put(i);
    if (i > 0) reduce_own(i - 1);
    if (i > 1) take(i - 2);
    if (auto passed = pass(); !passed) return passed;
  }
  take(pieces - 1);
  return {};
}

ShmBackend::Step ShmBackend::broadcast(const Transfer& data) {
  const auto root = static_cast<std::uint32_t>(what_->root);
  const Cut cut{data.count * size_of(data.dtype), shm_piece};
  return in_steps(
      cut.pieces(),
      [&](std::size_t i) {
        if (rank_ == root) copy(now(root), bytes_of(data.in) + cut.at(i), cut.length(i));
      },
      [&](std::size_t i) {
        if (rank_ != root) copy(bytes_of(data.out) + cut.at(i), before(root), cut.length(i));
      });
}

ShmBackend::Step ShmBackend::allgather(const Transfer& data) {
  const Cut cut{data.count * size_of(data.dtype), shm_piece};
  const auto own = bytes_of(data.out) + rank_ * cut.total;
  return in_steps(
      cut.pieces(),
      [&](std::size_t i) {
        const auto* from = bytes_of(data.in) + cut.at(i);
        copy(now(rank_), from, cut.length(i));
        if (own + cut.at(i) != from) copy(own + cut.at(i), from, cut.length(i));
      },
      [&](std::size_t i) {
        for (std::uint32_t rank = 0; rank < ranks_; ++rank)
          if (rank != rank_)
            copy(bytes_of(data.out) + rank * cut.total + cut.at(i), before(rank), cut.length(i));
      });
}

}  // namespace trainrun::comm
