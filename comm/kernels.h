// Element-wise reductions, and what is known of each element type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/trainrun_comm.h"

namespace trainrun::comm {

// 0 for a number that is no type.
std::size_t size_of(trc_dtype dtype);
const char* name_of(trc_dtype dtype);
const char* name_of(trc_op op);

// out[i] = a[i] (op) b[i]; out may be a or b. The mean reduces like the sum; finish_mean divides at the end.
using ReduceKernel = void (*)(void* out, const void* a, const void* b, std::size_t count);
ReduceKernel reduce_kernel(trc_dtype dtype, trc_op op);  // null for numbers that are no type or operation

// For f32, f64 and i64.
void finish_mean(void* data, std::size_t count, trc_dtype dtype, int size);

// A sum of narrow integers would wrap before the division, so their mean is formed in 64 bits.
bool needs_widening(trc_dtype dtype, trc_op op);
std::vector<std::int64_t> widened(const void* in, std::size_t count, trc_dtype dtype);
void narrow(const std::vector<std::int64_t>& wide, void* out, trc_dtype dtype);

}  // namespace trainrun::comm
