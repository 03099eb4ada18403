#include "comm/reduction.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace trainrun::comm {
namespace {

// A block of the widest type twice fits the first-level cache together with what comes in.
constexpr std::size_t block = 1024;
using Block = std::array<double, block>;

const char* at(const void* data, std::size_t bytes) { return static_cast<const char*>(data) + bytes; }
char* at(void* data, std::size_t bytes) { return static_cast<char*>(data) + bytes; }

}  // namespace

void begin_reduction(const Reduction& reduction, void* wide, const void* in, std::size_t count) {
  const auto type = wide_type(reduction.dtype, reduction.op);
  if (type != reduction.dtype)
    widen(wide, in, count, reduction.dtype);
  else if (wide != in && count > 0)
    std::memcpy(wide, in, count * size_of(type));
  if (reduction.before != 1) scale(wide, count, type, reduction.before);
}

void end_reduction(const Reduction& reduction, void* out, void* wide, std::size_t count) {
  const auto type = wide_type(reduction.dtype, reduction.op);
  if (reduction.op == TRC_MEAN) divide(wide, count, type, reduction.ranks);
  if (reduction.after != 1) scale(wide, count, type, reduction.after);
  if (type != reduction.dtype)
    narrow(out, wide, count, reduction.dtype);
  else if (out != wide && count > 0)
    std::memcpy(out, wide, count * size_of(type));
  // Kernels that combine make all that is true 1; of one rank nothing was combined.
  if (reduction.dtype == TRC_BOOL && reduction.ranks == 1)
    std::transform(at(out, 0), at(out, count), at(out, 0),
                   [](char one) { return static_cast<char>(one != 0); });
}

void reduce_all(const Reduction& reduction, void* out, const void* const* in, std::size_t count) {
  const auto ranks = static_cast<std::size_t>(reduction.ranks);
  const auto width = size_of(reduction.dtype);
  const auto type = wide_type(reduction.dtype, reduction.op);
  const auto combine = reduce_kernel(type, reduction.op);
  const bool raw = type == reduction.dtype && reduction.before == 1 && ranks > 1;
  // What one of the later ranks gave must be there until its turn comes.
  const bool in_out = raw && std::find(in + 2, in + ranks, out) == in + ranks;
  alignas(64) Block sum, next;
  for (std::size_t begin = 0; begin < count; begin += block) {
    const auto length = std::min(block, count - begin);
    const auto from = [&](std::size_t rank) { return at(in[rank], begin * width); };
    auto* const to = at(out, begin * width);
    void* const total = in_out ? static_cast<void*>(to) : sum.data();
    if (raw) {
      combine(total, from(0), from(1), length);
      for (std::size_t rank = 2; rank < ranks; ++rank) combine(total, total, from(rank), length);
    } else {
      begin_reduction(reduction, total, from(0), length);
      for (std::size_t rank = 1; rank < ranks; ++rank) {
        begin_reduction(reduction, next.data(), from(rank), length);
        combine(total, total, next.data(), length);
      }
    }
    end_reduction(reduction, to, total, length);
  }
}

}  // namespace trainrun::comm
