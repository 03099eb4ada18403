// The reductions of two buffers.
#include <cstdint>
#include <type_traits>

#include "comm/elements.h"
#include "comm/kernels.h"

namespace trainrun::comm {
namespace {

// Integers are added and multiplied without a sign, where overflow is defined to wrap; the type is at least
// as wide as unsigned int, since narrower ones would be promoted to a signed int.
template <class T>
using Wrapping = typename std::conditional_t<std::is_floating_point_v<T>, std::type_identity<T>,
                                             std::make_unsigned<std::common_type_t<T, int>>>::type;

struct Sum {
  template <class T>
  TRAINRUN_INLINE static T apply(T a, T b) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
};
struct Product {
  template <class T>
  TRAINRUN_INLINE static T apply(T a, T b) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  }
};
// Of floating point a NaN is both, whichever rank has it. A bitwise or: both sides may be looked at, so that
// the loop has no branch.
struct Min {
  template <class T>
  TRAINRUN_INLINE static T apply(T a, T b) {
    return static_cast<bool>(static_cast<int>(b < a) | static_cast<int>(b != b)) ? b : a;
  }
};
struct Max {
  template <class T>
  TRAINRUN_INLINE static T apply(T a, T b) {
    return static_cast<bool>(static_cast<int>(a < b) | static_cast<int>(b != b)) ? b : a;
  }
};
struct And {
  template <class T>
  TRAINRUN_INLINE static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  TRAINRUN_INLINE static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  TRAINRUN_INLINE static T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
// Of truth values: every byte but 0 is true.
template <class Op>
struct OfTruth {
  TRAINRUN_INLINE static std::uint8_t apply(std::uint8_t a, std::uint8_t b) {
    return Op::apply(static_cast<std::uint8_t>(a != 0), static_cast<std::uint8_t>(b != 0));
  }
};

template <class T, class Op>
TRAINRUN_INLINE void loop(void* out, const void* a, const void* b, std::size_t count) {
  // `out` may be `a` or `b`, but not overlap them otherwise; for the compiler's own check that is an overlap.
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) store<T>(out, i, Op::apply(load<T>(a, i), load<T>(b, i)));
}

template <class T, class Op>
void plain(void* out, const void* a, const void* b, std::size_t count) {
  loop<T, Op>(out, a, b, count);
}
#if defined(__x86_64__)
template <class T, class Op>
[[gnu::target("avx2")]] void avx2(void* out, const void* a, const void* b, std::size_t count) {
  loop<T, Op>(out, a, b, count);
}
template <class T, class Op>
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] void avx512(void* out, const void* a, const void* b,
                                                                  std::size_t count) {
  loop<T, Op>(out, a, b, count);
}
#endif

template <class T, class Op>
ReduceKernel for_processor(Simd simd) {
#if defined(__x86_64__)
  if (simd == Simd::avx512) return avx512<T, Op>;
  if (simd == Simd::avx2) return avx2<T, Op>;
#endif
  static_cast<void>(simd);
  return plain<T, Op>;
}

template <class T>
ReduceKernel of_numbers(trc_op op, Simd simd) {
  switch (op) {
    case TRC_SUM:
    case TRC_MEAN:
      return for_processor<T, Sum>(simd);
    case TRC_MIN:
      return for_processor<T, Min>(simd);
    case TRC_MAX:
      return for_processor<T, Max>(simd);
    case TRC_PROD:
      return for_processor<T, Product>(simd);
    case TRC_BAND:
      if constexpr (std::is_integral_v<T>) return for_processor<T, And>(simd);
      break;
    case TRC_BOR:
      if constexpr (std::is_integral_v<T>) return for_processor<T, Or>(simd);
      break;
    case TRC_BXOR:
      if constexpr (std::is_integral_v<T>) return for_processor<T, Xor>(simd);
      break;
    case TRC_OP_RANGE:
      break;
  }
  return nullptr;
}

ReduceKernel of_truth(trc_op op, Simd simd) {
  switch (op) {
    case TRC_SUM:
    case TRC_MAX:
    case TRC_BOR:
      return for_processor<std::uint8_t, OfTruth<Or>>(simd);
    case TRC_MIN:
    case TRC_PROD:
    case TRC_BAND:
      return for_processor<std::uint8_t, OfTruth<And>>(simd);
    case TRC_BXOR:
      return for_processor<std::uint8_t, OfTruth<Xor>>(simd);
    case TRC_MEAN:
    case TRC_OP_RANGE:
      break;
  }
  return nullptr;
}

}  // namespace

ReduceKernel reduce_kernel(trc_dtype dtype, trc_op op, Simd simd) {
  switch (dtype) {
    case TRC_U8:
      return of_numbers<std::uint8_t>(op, simd);
    case TRC_I8:
      return of_numbers<std::int8_t>(op, simd);
    case TRC_I32:
      return of_numbers<std::int32_t>(op, simd);
    case TRC_I64:
      return of_numbers<std::int64_t>(op, simd);
    case TRC_F32:
      return of_numbers<float>(op, simd);
    case TRC_F64:
      return of_numbers<double>(op, simd);
    case TRC_BOOL:
      return of_truth(op, simd);
    case TRC_F16:
    case TRC_BF16:
    case TRC_DTYPE_RANGE:
      break;
  }
  return nullptr;
}

}  // namespace trainrun::comm
