// The backend of ranks that share memory: pieces go through memory that stays in the cache, and each step
// ends at a gate. What a rank is about to do lies beside its word that it has come, so to agree costs no step
// of its own.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "comm/backends/backend.h"
#include "comm/backends/shm/gate.h"
#include "comm/backends/shm/layout.h"
#include "comm/backends/shm/segment.h"

namespace trainrun::comm {

class ShmBackend final : public Backend {
 public:
  // Segment::provide, or in its place that of a test.
  using Provide = bool (*)(char* begin, std::size_t bytes);

  // `segment` has Layout::bytes(ranks), or the first of them, zeros at first but for what the ranks said of
  // themselves. `spins` as for Gate.
  ShmBackend(Segment segment, std::uint32_t rank, std::uint32_t ranks, bool spins,
             Provide provide = Segment::provide);

  [[nodiscard]] const char* name() const override { return "shm"; }
  Performed perform(const Descriptor& what, const Transfer& data, Deadline deadline) override {
    return perform_part(what, what, data, deadline);
  }
  // perform(), as a part of an operation among more ranks: they agree on `whole`, and do `part`.
  Performed perform_part(const Descriptor& whole, const Descriptor& part, const Transfer& data,
                         Deadline deadline);
  void abort() override { gate_.abort(); }

 private:
  using Stop = std::variant<Broken, Disagreement>;
  using Step = tl::expected<void, Stop>;

  // How a buffer is cut. The pieces of all ranks have the same lengths.
  struct Cut {
    std::size_t total, piece;
    [[nodiscard]] std::size_t pieces() const { return total == 0 ? 1 : (total + piece - 1) / piece; }
    [[nodiscard]] std::size_t at(std::size_t index) const { return std::min(total, index * piece); }
    [[nodiscard]] std::size_t length(std::size_t index) const { return std::min(piece, total - at(index)); }
  };

  // What moves, as all ranks count it.
  [[nodiscard]] std::size_t operation_bytes(const Transfer& data) const;
  // What the operation's pieces are; the first that is large finds out whether there is memory for it.
  Step choose_pieces(const Transfer& data);
  Step dispatch(const Transfer& data);
  // The one rank that is about to do something else than all others.
  [[nodiscard]] std::optional<std::uint32_t> odd_one(std::uint32_t step) const;
  Step pass();  // ends the step; the first of an operation also compares what all are about to do
  // Runs put(i) and, a step later, take(i) for each piece.
  template <class Put, class Take>
  Step in_steps(std::size_t pieces, Put put, Take take);
  // `takes`: this rank gets the result.
  Step small_allreduce(const Transfer& data, bool takes);
  Step large_allreduce(const Transfer& data, bool takes);
  Step reduce_scatter(const Transfer& data);
  Step broadcast(const Transfer& data);
  Step allgather(const Transfer& data);
  Step gather(const Transfer& data);
  Step scatter(const Transfer& data);
  Step alltoall(const Transfer& data);

  [[nodiscard]] std::size_t width() const { return size_of(what_->dtype); }
  // Of a block that goes to one rank of all.
  [[nodiscard]] std::size_t share() const { return piece_ / ranks_ / cache_line * cache_line; }
  // The rank's piece that is filled in this step, and the one that was filled in the last.
  [[nodiscard]] char* now(std::uint32_t rank) const { return piece_at(rank, gate_.step()); }
  [[nodiscard]] char* before(std::uint32_t rank) const { return piece_at(rank, gate_.step() - 1); }
  [[nodiscard]] char* piece_at(std::uint32_t rank, std::uint32_t step) const {
    return large_now_ ? layout_.large_piece(rank, step) : layout_.piece(rank, step);
  }

  Segment segment_;
  Layout layout_;
  Gate gate_;
  std::uint32_t rank_, ranks_;
  enum class Large : std::uint8_t { untried, ready, none };
  Large large_;
  Provide provide_;
  bool large_now_ = false;  // of the operation that runs
  std::size_t piece_ = shm_piece;
  const Descriptor* what_ = nullptr;  // of the operation that runs
  Deadline deadline_{};
  bool first_step_ = false;
  std::vector<const void*> sources_;  // of a reduction
};

}  // namespace trainrun::comm
