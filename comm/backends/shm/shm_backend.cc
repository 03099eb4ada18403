#include "comm/backends/shm/shm_backend.h"

#include <cstring>
#include <numeric>
#include <utility>

#include "comm/backends/shm/stream_copy.h"

namespace trainrun::comm {
namespace {

// Up to so many bytes of the others each rank reduces everything itself, and one step is enough.
constexpr std::size_t small_of_others = std::size_t{96} << 10;

void copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

const char* bytes_of(const void* data) { return static_cast<const char*>(data); }
char* bytes_of(void* data) { return static_cast<char*>(data); }

}  // namespace

ShmBackend::ShmBackend(Segment segment, std::uint32_t rank, std::uint32_t ranks, bool spins, Provide provide)
    : segment_(std::move(segment)),
      layout_(segment_.data(), ranks),
      gate_(layout_.control().gate, layout_.headers(), rank, ranks, spins),
      rank_(rank),
      ranks_(ranks),
      large_(segment_.size() > Layout::bytes(ranks).first ? Large::untried : Large::none),
      provide_(provide),
      sources_(ranks) {}

Performed ShmBackend::perform_part(const Descriptor& whole, const Descriptor& part, const Transfer& data,
                                   Deadline deadline) {
  what_ = &part;
  deadline_ = deadline;
  first_step_ = true;
  gate_.header(rank_, gate_.step()).what = whole;
  auto done = choose_pieces(data);
  if (done) done = dispatch(data);
  if (done) return std::nullopt;
  if (const auto* disagreement = std::get_if<Disagreement>(&done.error())) return *disagreement;
  return tl::unexpected(std::get<Broken>(done.error()));
}

std::size_t ShmBackend::operation_bytes(const Transfer& data) const {
  if (!data.counts.empty())
    return std::accumulate(data.counts.begin(), data.counts.end(), std::size_t{0}) * width();
  const bool has_blocks =
      what_->call == Call::reduce_scatter || what_->call == Call::scatter || what_->call == Call::alltoall;
  return what_->count * width() * (has_blocks ? ranks_ : 1);
}

// Whoever calls something else finds that out at the end of this step as of any other.
ShmBackend::Step ShmBackend::choose_pieces(const Transfer& data) {
  large_now_ = false;
  piece_ = shm_piece;
  if (large_ == Large::none || operation_bytes(data) < large_from) return {};
  if (large_ == Large::untried) {
    const auto bytes = 2 * shm_large_piece(ranks_);
    char* const own = layout_.large_piece(rank_, 0);
    char* const results = layout_.large_piece(ranks_, 0);
    // Each touches its own, which brings it near to the core; the results are nobody's.
    if (!provide_(own, bytes) || (rank_ == 0 && !provide_(results, bytes)))
      layout_.control().without_large.fetch_add(1);
    if (auto passed = pass(); !passed) return passed;
    large_ = layout_.control().without_large.load() == 0 ? Large::ready : Large::none;
    if (large_ == Large::none) {
      Segment::give_back(own, bytes);
      if (rank_ == 0) Segment::give_back(results, bytes);
    }
  }
  large_now_ = large_ == Large::ready;
  if (large_now_) piece_ = shm_large_piece(ranks_);
  return {};
}

ShmBackend::Step ShmBackend::dispatch(const Transfer& data) {
  const auto reduce = [&](bool takes) {
    return what_->count * width() * (ranks_ - 1) <= small_of_others ? small_allreduce(data, takes)
                                                                    : large_allreduce(data, takes);
  };
  switch (what_->call) {
    case Call::allreduce:
      return reduce(true);
    case Call::reduce:
      return reduce(static_cast<std::uint32_t>(what_->root) == rank_);
    case Call::reduce_scatter:
      return reduce_scatter(data);
    case Call::broadcast:
    case Call::send:
      return broadcast(data);
    case Call::allgather:
    case Call::allgatherv:
    case Call::alltoallv_plan:
      return allgather(data);
    case Call::gather:
      return gather(data);
    case Call::scatter:
      return scatter(data);
    case Call::alltoall:
    case Call::alltoallv:
      return alltoall(data);
    case Call::barrier:
    case Call::join:
    case Call::finalize:
    case Call::settle:
      break;
  }
  return pass();
}

ShmBackend::Step ShmBackend::pass() {
  const auto step = gate_.step();
  if (auto passed = gate_.pass(deadline_); !passed) return tl::unexpected(Stop(passed.error()));
  if (!std::exchange(first_step_, false)) return {};
  // Everybody looks at the same headers, and so finds the same two ranks.
  const auto& first = gate_.header(0, step).what;
  for (std::uint32_t rank = 1; rank < ranks_; ++rank) {
    const auto& other = gate_.header(rank, step).what;
    if (!(first == other)) return tl::unexpected(Stop(Disagreement{0, rank, first, other, odd_one(step)}));
  }
  return {};
}

std::optional<std::uint32_t> ShmBackend::odd_one(std::uint32_t step) const {
  const auto all_but = [&](std::uint32_t odd) {
    const auto& common = gate_.header(odd == 0 ? 1 : 0, step).what;
    for (std::uint32_t rank = 0; rank < ranks_; ++rank)
      if (rank != odd && !(gate_.header(rank, step).what == common)) return false;
    return true;
  };
  for (std::uint32_t odd = 0; ranks_ > 2 && odd < ranks_; ++odd)
    if (all_but(odd)) return odd;
  return std::nullopt;
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

ShmBackend::Step ShmBackend::small_allreduce(const Transfer& data, bool takes) {
  copy(now(rank_), data.in, what_->count * width());
  if (auto passed = pass(); !passed) return passed;
  if (!takes) return {};
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) sources_[rank] = rank == rank_ ? data.in : before(rank);
  reduce_all(reduction_of(*what_, static_cast<int>(ranks_)), data.out, sources_.data(), what_->count);
  return {};
}

// Each rank reduces its part of every piece, one step after the piece was put there, and all take the results
// one step later; so there is one step a piece. A rank's own part never leaves its buffer.
ShmBackend::Step ShmBackend::large_allreduce(const Transfer& data, bool takes) {
  const auto reduction = reduction_of(*what_, static_cast<int>(ranks_));
  const Cut cut{what_->count * width(), piece_};
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
    for (std::uint32_t rank = 0; rank < ranks_; ++rank)
      sources_[rank] = rank == rank_ ? bytes_of(data.in) + cut.at(i) + begin : before(rank) + begin;
    reduce_all(reduction, now(ranks_) + begin, sources_.data(), length / width());
  };
  const auto into_out = cut.total >= stream_from ? stream_copy : copy;
  const auto take = [&](std::size_t i) {
    if (takes) into_out(bytes_of(data.out) + cut.at(i), before(ranks_), cut.length(i));
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

// A rank's piece has a share for each rank.
ShmBackend::Step ShmBackend::reduce_scatter(const Transfer& data) {
  const auto reduction = reduction_of(*what_, static_cast<int>(ranks_));
  const Cut cut{what_->count * width(), share()};
  const auto block = [&](std::uint32_t rank) { return bytes_of(data.in) + rank * cut.total; };
  return in_steps(
      cut.pieces(),
      [&](std::size_t i) {
        for (std::uint32_t rank = 0; rank < ranks_; ++rank)
          if (rank != rank_) copy(now(rank_) + rank * share(), block(rank) + cut.at(i), cut.length(i));
      },
      [&](std::size_t i) {
        for (std::uint32_t rank = 0; rank < ranks_; ++rank)
          sources_[rank] = rank == rank_ ? block(rank_) + cut.at(i) : before(rank) + rank_ * share();
        reduce_all(reduction, bytes_of(data.out) + cut.at(i), sources_.data(), cut.length(i) / width());
      });
}

ShmBackend::Step ShmBackend::broadcast(const Transfer& data) {
  const auto root = static_cast<std::uint32_t>(what_->root);
  const Cut cut{what_->count * width(), piece_};
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
  struct Block {
    Cut cut;
    char* begin;
  };
  std::vector<Block> blocks;
  auto* to = bytes_of(data.out);
  std::size_t pieces = 1;
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    const auto count = data.counts.empty() ? what_->count : data.counts[rank];
    blocks.push_back({{count * width(), piece_}, to});
    pieces = std::max(pieces, blocks.back().cut.pieces());
    if (to != nullptr) to += blocks.back().cut.total;
  }
  return in_steps(
      pieces,
      [&](std::size_t i) {
        const auto& cut = blocks[rank_].cut;
        copy(now(rank_), bytes_of(data.in) + cut.at(i), cut.length(i));
      },
      [&](std::size_t i) {
        for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
          const auto& [cut, begin] = blocks[rank];
          copy(begin + cut.at(i), rank == rank_ ? bytes_of(data.in) + cut.at(i) : before(rank),
               cut.length(i));
        }
      });
}

ShmBackend::Step ShmBackend::gather(const Transfer& data) {
  const auto root = static_cast<std::uint32_t>(what_->root);
  const Cut cut{what_->count * width(), piece_};
  return in_steps(
      cut.pieces(),
      [&](std::size_t i) {
        if (rank_ != root) copy(now(rank_), bytes_of(data.in) + cut.at(i), cut.length(i));
      },
      [&](std::size_t i) {
        if (rank_ != root) return;
        for (std::uint32_t rank = 0; rank < ranks_; ++rank)
          copy(bytes_of(data.out) + rank * cut.total + cut.at(i),
               rank == root ? bytes_of(data.in) + cut.at(i) : before(rank), cut.length(i));
      });
}

ShmBackend::Step ShmBackend::scatter(const Transfer& data) {
  const auto root = static_cast<std::uint32_t>(what_->root);
  const Cut cut{what_->count * width(), share()};
  return in_steps(
      cut.pieces(),
      [&](std::size_t i) {
        if (rank_ != root) return;
        for (std::uint32_t rank = 0; rank < ranks_; ++rank)
          if (rank != root)
            copy(now(root) + rank * share(), bytes_of(data.in) + rank * cut.total + cut.at(i), cut.length(i));
      },
      [&](std::size_t i) {
        const auto* const from =
            rank_ == root ? bytes_of(data.in) + root * cut.total + cut.at(i) : before(root) + rank_ * share();
        copy(bytes_of(data.out) + cut.at(i), from, cut.length(i));
      });
}

ShmBackend::Step ShmBackend::alltoall(const Transfer& data) {
  const auto cut_of = [&](std::uint32_t from, std::uint32_t to) {
    return Cut{(data.counts.empty() ? what_->count : data.counts[from * ranks_ + to]) * width(), share()};
  };
  struct Block {
    Cut cut;
    std::size_t begin;
  };
  std::vector<Block> given, got;
  std::size_t given_bytes = 0, got_bytes = 0, pieces = 1;
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    given.push_back({cut_of(rank_, rank), given_bytes});
    got.push_back({cut_of(rank, rank_), got_bytes});
    given_bytes += given.back().cut.total;
    got_bytes += got.back().cut.total;
    for (std::uint32_t other = 0; other < ranks_; ++other)
      pieces = std::max(pieces, cut_of(rank, other).pieces());
  }
  return in_steps(
      pieces,
      [&](std::size_t i) {
        for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
          const auto& [cut, begin] = given[rank];
          if (rank != rank_)
            copy(now(rank_) + rank * share(), bytes_of(data.in) + begin + cut.at(i), cut.length(i));
        }
      },
      [&](std::size_t i) {
        for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
          const auto& [cut, begin] = got[rank];
          const auto* const from = rank == rank_ ? bytes_of(data.in) + given[rank].begin + cut.at(i)
                                                 : before(rank) + rank_ * share();
          copy(bytes_of(data.out) + begin + cut.at(i), from, cut.length(i));
        }
      });
}

}  // namespace trainrun::comm
