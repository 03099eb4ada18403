// Loops over elements: reductions of two buffers, and conversions between a type and the one its sums are
// formed in. Each is compiled for several kinds of processors (launcher/decisions/0030).
#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/trainrun_comm.h"

namespace trainrun::comm {

// 0 for a number that is no type.
std::size_t size_of(trc_dtype dtype);
const char* name_of(trc_dtype dtype);
const char* name_of(trc_op op);
[[nodiscard]] bool is_floating(trc_dtype dtype);
// Whether the operation has a meaning for elements of the type; false for numbers that are none.
[[nodiscard]] bool can_reduce(trc_dtype dtype, trc_op op);

// What a loop may use of the processor; each has what those before it have.
enum class Simd : std::uint8_t { plain, avx2, avx512 };
Simd best_simd();  // of this machine

// out[i] = a[i] (op) b[i]; out may be a or b. The mean reduces like the sum. Buffers need not be aligned.
using ReduceKernel = void (*)(void* out, const void* a, const void* b, std::size_t count);
// Null where can_reduce says no, and for types that are not their own wide_type.
ReduceKernel reduce_kernel(trc_dtype dtype, trc_op op, Simd simd = best_simd());

// The type in which a reduction is formed: halves in f32, and means of narrow integers, whose sums would wrap
// before the division, in i64.
trc_dtype wide_type(trc_dtype dtype, trc_op op);
// Between a type and a wider one: f16 and bf16 to f32, narrow integers to i64. To f16 and bf16 is rounded to
// the nearest, halfway to even.
void widen(void* wide, const void* in, std::size_t count, trc_dtype dtype, Simd simd = best_simd());
void narrow(void* out, const void* wide, std::size_t count, trc_dtype dtype, Simd simd = best_simd());

// Of f32 and f64; to divide, of i64 too.
void scale(void* data, std::size_t count, trc_dtype dtype, double factor);
void divide(void* data, std::size_t count, trc_dtype dtype, int by);

}  // namespace trainrun::comm
