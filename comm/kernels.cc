#include "comm/kernels.h"

#include "comm/elements.h"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace trainrun::comm {
namespace {

template <class T>
void divide_by(void* data, std::size_t count, T by) {
  for (std::size_t i = 0; i < count; ++i) store(data, i, static_cast<T>(load<T>(data, i) / by));
}

template <class T>
void scale_by(void* data, std::size_t count, T factor) {
  for (std::size_t i = 0; i < count; ++i) store(data, i, load<T>(data, i) * factor);
}

Simd ask_processor() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool halves = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
  __builtin_cpu_init();
  if (!halves || !__builtin_cpu_supports("avx2")) return Simd::plain;
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return wide ? Simd::avx512 : Simd::avx2;
#else
  return Simd::plain;
#endif
}

}  // namespace

std::size_t size_of(trc_dtype dtype) {
  switch (dtype) {
    case TRC_U8:
    case TRC_I8:
    case TRC_BOOL:
      return 1;
    case TRC_F16:
    case TRC_BF16:
      return 2;
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
    case TRC_F16:
      return "f16";
    case TRC_BF16:
      return "bf16";
    case TRC_BOOL:
      return "bool";
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
    case TRC_BAND:
      return "bitwise and";
    case TRC_BOR:
      return "bitwise or";
    case TRC_BXOR:
      return "bitwise xor";
    case TRC_OP_RANGE:
      break;
  }
  return "?";
}

bool is_floating(trc_dtype dtype) {
  return dtype == TRC_F16 || dtype == TRC_BF16 || dtype == TRC_F32 || dtype == TRC_F64;
}

bool can_reduce(trc_dtype dtype, trc_op op) {
  if (size_of(dtype) == 0) return false;
  switch (op) {
    case TRC_SUM:
    case TRC_MIN:
    case TRC_MAX:
    case TRC_PROD:
      return true;
    case TRC_MEAN:
      return dtype != TRC_BOOL;
    case TRC_BAND:
    case TRC_BOR:
    case TRC_BXOR:
      return !is_floating(dtype);
    case TRC_OP_RANGE:
      break;
  }
  return false;
}

Simd best_simd() {
  static const Simd best = ask_processor();
  return best;
}

trc_dtype wide_type(trc_dtype dtype, trc_op op) {
  if (dtype == TRC_F16 || dtype == TRC_BF16) return TRC_F32;
  const bool narrow_integer = dtype == TRC_U8 || dtype == TRC_I8 || dtype == TRC_I32;
  return narrow_integer && op == TRC_MEAN ? TRC_I64 : dtype;
}

void scale(void* data, std::size_t count, trc_dtype dtype, double factor) {
  if (dtype == TRC_F32) scale_by(data, count, static_cast<float>(factor));
  if (dtype == TRC_F64) scale_by(data, count, factor);
}

void divide(void* data, std::size_t count, trc_dtype dtype, int by) {
  if (dtype == TRC_F32) divide_by(data, count, static_cast<float>(by));
  if (dtype == TRC_F64) divide_by(data, count, static_cast<double>(by));
  if (dtype == TRC_I64) divide_by(data, count, std::int64_t{by});
}

}  // namespace trainrun::comm
