#include "comm/kernels.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace trainrun::comm {
namespace {

// Integers are added and multiplied without a sign, where overflow is defined to wrap; the type is at least
// as wide as unsigned int, since narrower ones would be promoted to a signed int.
template <class T>
using Wrapping = std::conditional_t<std::is_floating_point_v<T>, std::type_identity<T>,
                                    std::make_unsigned<std::common_type_t<T, int>>>::type;

template <class T>
struct Sum {
  static T apply(T a, T b) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
};
template <class T>
struct Product {
  static T apply(T a, T b) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  }
};
template <class T>
struct Min {
  static T apply(T a, T b) { return std::min(a, b); }
};
template <class T>
struct Max {
  static T apply(T a, T b) { return std::max(a, b); }
};

// Programs may give buffers that are not aligned to their elements. The compiler makes plain moves of these.
template <class T>
T load(const void* from, std::size_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(from) + index * sizeof(T), sizeof(T));
  return value;
}
template <class T>
void store(void* to, std::size_t index, T value) {
  std::memcpy(static_cast<char*>(to) + index * sizeof(T), &value, sizeof(T));
}

template <class T, template <class> class Op>
void reduce(void* out, const void* a, const void* b, std::size_t count) {
  // `out` may be `a` or `b`, but not overlap them otherwise; for the compiler's own check that is an overlap.
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) store(out, i, Op<T>::apply(load<T>(a, i), load<T>(b, i)));
}

template <class T>
ReduceKernel kernel_for(trc_op op) {
  switch (op) {
    case TRC_SUM:
    case TRC_MEAN:
      return reduce<T, Sum>;
    case TRC_MIN:
      return reduce<T, Min>;
    case TRC_MAX:
      return reduce<T, Max>;
    case TRC_PROD:
      return reduce<T, Product>;
    case TRC_OP_RANGE:
      break;
  }
  return nullptr;
}

template <class T>
void divide(void* data, std::size_t count, int size) {
  for (std::size_t i = 0; i < count; ++i)
    store(data, i, static_cast<T>(load<T>(data, i) / static_cast<T>(size)));
}

template <class T>
void widen_from(const void* in, std::vector<std::int64_t>& out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = load<T>(in, i);
}

template <class T>
void narrow_to(const std::vector<std::int64_t>& in, void* out) {
  for (std::size_t i = 0; i < in.size(); ++i) store(out, i, static_cast<T>(in[i]));
}

}  // namespace

std::size_t size_of(trc_dtype dtype) {
  switch (dtype) {
    case TRC_U8:
    case TRC_I8:
      return 1;
    case TRC_I32:
    case TRC_F32:
      return 4;
    case TRC_I64:
    case TRC_F64:
      return 8;
    case TRC_DTYPE_RANGE:
      break;
  }
  return 0;
}

const char* name_of(trc_dtype dtype) {
  switch (dtype) {
    case TRC_U8:
      return "u8";
    case TRC_I8:
      return "i8";
    case TRC_I32:
      return "i32";
    case TRC_I64:
      return "i64";
    case TRC_F32:
      return "f32";
    case TRC_F64:
      return "f64";
    case TRC_DTYPE_RANGE:
      break;
  }
  return "?";
}

const char* name_of(trc_op op) {
  switch (op) {
    case TRC_SUM:
      return "sum";
    case TRC_MEAN:
      return "mean";
    case TRC_MIN:
      return "min";
    case TRC_MAX:
      return "max";
    case TRC_PROD:
      return "product";
    case TRC_OP_RANGE:
      break;
  }
  return "?";
}

ReduceKernel reduce_kernel(trc_dtype dtype, trc_op op) {
  switch (dtype) {
    case TRC_U8:
      return kernel_for<std::uint8_t>(op);
    case TRC_I8:
      return kernel_for<std::int8_t>(op);
    case TRC_I32:
      return kernel_for<std::int32_t>(op);
    case TRC_I64:
      return kernel_for<std::int64_t>(op);
    case TRC_F32:
      return kernel_for<float>(op);
    case TRC_F64:
      return kernel_for<double>(op);
    case TRC_DTYPE_RANGE:
      break;
  }
  return nullptr;
}

void finish_mean(void* data, std::size_t count, trc_dtype dtype, int size) {
  if (dtype == TRC_F32) divide<float>(data, count, size);
  if (dtype == TRC_F64) divide<double>(data, count, size);
  if (dtype == TRC_I64) divide<std::int64_t>(data, count, size);
}

bool needs_widening(trc_dtype dtype, trc_op op) {
  return op == TRC_MEAN && (dtype == TRC_U8 || dtype == TRC_I8 || dtype == TRC_I32);
}

std::vector<std::int64_t> widened(const void* in, std::size_t count, trc_dtype dtype) {
  std::vector<std::int64_t> wide(count);
  if (dtype == TRC_U8) widen_from<std::uint8_t>(in, wide);
  if (dtype == TRC_I8) widen_from<std::int8_t>(in, wide);
  if (dtype == TRC_I32) widen_from<std::int32_t>(in, wide);
  return wide;
}

void narrow(const std::vector<std::int64_t>& wide, void* out, trc_dtype dtype) {
  if (dtype == TRC_U8) narrow_to<std::uint8_t>(wide, out);
  if (dtype == TRC_I8) narrow_to<std::int8_t>(wide, out);
  if (dtype == TRC_I32) narrow_to<std::int32_t>(wide, out);
}

}  // namespace trainrun::comm
