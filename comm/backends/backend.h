// The plug point under a group: how its ranks exchange bytes. One folder a backend; factory.h chooses.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "comm/kernels.h"

namespace trainrun::comm {

enum class Call : std::uint8_t { allreduce = 1, broadcast, allgather, barrier };
const char* name_of(Call call);

// What a rank is about to do. All ranks must be about to do the same.
struct Descriptor {
  std::uint64_t sequence = 0;
  std::uint64_t count = 0;
  Call call = Call::barrier;
  trc_dtype dtype = TRC_U8;
  trc_op op = TRC_SUM;    // allreduce
  std::int32_t root = 0;  // broadcast

  friend bool operator==(const Descriptor&, const Descriptor&) = default;
};
std::string describe(const Descriptor& descriptor);

// What a backend's call can end with besides success. Text of the lower layer, not for users.
struct Broken {
  std::string text;
};
// Two ranks that are about to do different things.
struct Disagreement {
  std::uint32_t first_rank = 0, second_rank = 0;
  Descriptor first, second;
};

using Moved = tl::expected<void, Broken>;
// Nothing when the operation is done, or who disagrees; the same on all ranks.
using Performed = tl::expected<std::optional<Disagreement>, Broken>;
using Deadline = std::chrono::steady_clock::time_point;

// The buffers of one operation, `count` elements of `dtype` for each rank: an allgather's `out` holds them
// for all. They may be the same, need not be aligned, and a broadcast has one buffer.
struct Transfer {
  const void* in = nullptr;
  void* out = nullptr;
  std::uint64_t count = 0;
  trc_dtype dtype = TRC_U8;
};

// Calls come one at a time, but for abort(), which comes from another thread at any time.
class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  [[nodiscard]] virtual const char* name() const = 0;
  // What is agreed on is `what`; what moves is `data`, which may be wider. Payload reaches no buffer before
  // all are known to agree. A mean is divided here, for the types that finish_mean knows.
  virtual Performed perform(const Descriptor& what, const Transfer& data, Deadline deadline) = 0;
  // The call that runs and all later ones fail, within milliseconds.
  virtual void abort() = 0;
};

}  // namespace trainrun::comm
