// An extension point, under a group: how its ranks exchange bytes. One folder a backend; factory.h chooses.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tl/expected.hpp>

#include "comm/reduction.h"

namespace trainrun::comm {

enum class Call : std::uint8_t {
  allreduce = 1,
  broadcast,
  allgather,
  barrier,
  reduce,
  reduce_scatter,
  allgatherv,
  scatter,
  gather,
  alltoall,
  alltoallv_plan,  // all ranks hear how much each gives to each
  alltoallv,
  send,      // of a group of two, to the other
  join,      // nothing any more, until all say so
  finalize,  // the last operation of a world
  settle,    // of a device: waits for an event there, by itself
};
const char* name_of(Call call);

constexpr int name_bits = 24;

// What a rank is about to do. All ranks must be about to do the same.
struct Descriptor {
  std::uint64_t sequence = 0;
  std::uint64_t count = 0;
  std::uint64_t shape = 0;       // of counts that differ between the ranks; see shape_of
  double before = 1, after = 1;  // factors of a reduction
  trc_dtype dtype = TRC_U8;
  trc_op op = TRC_SUM;    // of a reduction
  std::int32_t root = 0;  // where one rank gives or gets all, its number in the group
  // What the program calls it, as a number; 0: nothing. Short, since a descriptor and a counter fill a line
  // of the cache.
  std::uint32_t name : name_bits = 0;
  Call call = Call::barrier;

  friend bool operator==(const Descriptor&, const Descriptor&) = default;
};
// As the member calls it. `ranks`: the numbers of the group's members in the world; empty where they are the
// same.
std::string describe(const Descriptor& descriptor, std::uint32_t member,
                     std::span<const std::uint32_t> ranks = {});
// A number that is another one for other counts.
std::uint64_t shape_of(std::span<const std::uint64_t> counts);

inline Reduction reduction_of(const Descriptor& what, int ranks) {
  return {what.dtype, what.op, what.before, what.after, ranks};
}

// What a backend's call can end with besides success. Text of the lower layer, not for users.
struct Broken {
  std::string text;
  std::optional<std::uint32_t> with{};  // the member of the group to which it is, where that is known
};
// Two ranks that are about to do different things.
struct Disagreement {
  std::uint32_t first_rank = 0, second_rank = 0;
  Descriptor first, second;
  std::optional<std::uint32_t> odd{};  // one of them, if all other ranks are known to call the same
};

using Moved = tl::expected<void, Broken>;
// Nothing when the operation is done, or who disagrees; the same on all ranks.
using Performed = tl::expected<std::optional<Disagreement>, Broken>;
using Deadline = std::chrono::steady_clock::time_point;

// One of a list, on a device. They may be the same, and must be aligned to their elements.
struct Tensor {
  const void* in = nullptr;
  void* out = nullptr;
  std::uint64_t count = 0;
  trc_dtype dtype = TRC_F32;
};

// The buffers of one operation, of the descriptor's type, need not be aligned. Where each rank gives
// something to each, or one does to all, `in` holds a block of `count` elements for each; where it gets from
// each, `out` does; all others hold `count` elements. They may be the same, or the smaller one be the rank's
// own block of the larger. A rank that gives or gets nothing may have none; a broadcast has one for both.
struct Transfer {
  const void* in = nullptr;
  void* out = nullptr;
  // Elements instead of `count`. allgatherv: of each rank. alltoallv: at rank x size + other, what the rank
  // gives to the other; the blocks lie one after another. On a device: what this rank gives to each, and then
  // what it gets.
  std::span<const std::uint64_t> counts{};
  // Of an allreduce, instead of in and out: `count` elements in all, which travel as the descriptor's type.
  std::span<const Tensor> tensors{};
  void* event = nullptr;  // of a settle: a CUevent
};

// Calls come one at a time, but for abort(), which comes from another thread at any time.
class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  [[nodiscard]] virtual const char* name() const = 0;
  // Why it cannot do this at all, whatever the buffers hold; null when it can.
  [[nodiscard]] virtual const char* refuses(const Descriptor&) const { return nullptr; }
  // Why it reduces no lists of tensors; null when it does.
  [[nodiscard]] virtual const char* refuses_lists() const { return "the group is on no device"; }
  // It has a send between any two ranks itself: `root` is the other, `in` of the giver and `out` of the
  // taker.
  [[nodiscard]] virtual bool sends() const { return false; }
  // Of a device, on which operations are enqueued from now on; false where there is none.
  virtual bool use_stream(void*) { return false; }
  // Payload reaches no buffer before all are known to agree.
  virtual Performed perform(const Descriptor& what, const Transfer& data, Deadline deadline) = 0;
  // The call that runs and all later ones fail, within milliseconds.
  virtual void abort() = 0;
};

}  // namespace trainrun::comm
