// A buffer of elements of any type, whose values are given and told in double.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "comm/kernels.h"

namespace trainrun::comm {

inline constexpr trc_dtype all_types[] = {TRC_U8,  TRC_I8,  TRC_I32,  TRC_I64, TRC_F32,
                                          TRC_F64, TRC_F16, TRC_BF16, TRC_BOOL};
inline constexpr trc_op all_reductions[] = {TRC_SUM,  TRC_MEAN, TRC_MIN, TRC_MAX,
                                            TRC_PROD, TRC_BAND, TRC_BOR, TRC_BXOR};

// The value of a 16-bit float of so many bits of mantissa, from its definition.
inline double value_of_half(std::uint16_t bits, int mantissa) {
  const int exponent_bits = 15 - mantissa, bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = bits >> mantissa & ((1 << exponent_bits) - 1);
  const double fraction = std::ldexp(bits & ((1 << mantissa) - 1), -mantissa);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return sign * (fraction == 0 ? INFINITY : NAN);
  return sign * (exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias));
}

// The nearest one, of two the one that is even; found by trying, since what is tested computes it.
inline std::uint16_t half_of_value(double value, int mantissa) {
  const auto magnitude = std::fabs(value);
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const int exponent_bits = 15 - mantissa;
  const auto infinity = static_cast<std::uint16_t>(((1 << exponent_bits) - 1) << mantissa);
  if (std::isnan(value)) return static_cast<std::uint16_t>(infinity | 1);
  std::uint16_t low = 0, high = infinity;  // magnitudes grow with their bits
  while (high - low > 1) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (value_of_half(middle, mantissa) <= magnitude ? low : high) = middle;
  }
  // Beyond the largest stands what would be the next.
  const double above = high == infinity
                           ? 2 * value_of_half(infinity - 1, mantissa) - value_of_half(infinity - 2, mantissa)
                           : value_of_half(high, mantissa);
  const double down = magnitude - value_of_half(low, mantissa), up = above - magnitude;
  const bool take_high = up < down || (up == down && low % 2 == 1) || magnitude == INFINITY;
  return static_cast<std::uint16_t>((take_high ? high : low) | sign);
}

// As an element of the type holds it: integers are cut, floats rounded once.
inline double as_stored(trc_dtype dtype, double number) {
  switch (dtype) {
    case TRC_F64:
      return number;
    case TRC_F32:
      return static_cast<double>(static_cast<float>(number));
    case TRC_F16:
      return value_of_half(half_of_value(number, 10), 10);
    case TRC_BF16:
      return value_of_half(half_of_value(number, 7), 7);
    case TRC_BOOL:
      return number != 0 ? 1 : 0;
    default:
      return std::trunc(number);
  }
}

// `count` elements in memory that begins `offset` bytes after an aligned address.
class TypedBuffer {
 public:
  TypedBuffer(trc_dtype dtype, std::size_t count, std::size_t offset)
      : dtype_(dtype), offset_(offset), bytes_(offset + count * size_of(dtype) + 1, guard) {}
  [[nodiscard]] void* data(std::size_t element = 0) {
    return bytes_.data() + offset_ + element * size_of(dtype_);
  }
  void set(std::size_t i, double to) {
    switch (dtype_) {
      case TRC_U8:
      case TRC_BOOL:
        return put(i, static_cast<std::uint8_t>(to));
      case TRC_I8:
        return put(i, static_cast<std::int8_t>(to));
      case TRC_I32:
        return put(i, static_cast<std::int32_t>(to));
      case TRC_I64:
        return put(i, static_cast<std::int64_t>(to));
      case TRC_F32:
        return put(i, static_cast<float>(to));
      case TRC_F64:
        return put(i, to);
      case TRC_F16:
        return put(i, half_of_value(to, 10));
      case TRC_BF16:
        return put(i, half_of_value(to, 7));
      case TRC_DTYPE_RANGE:
        break;
    }
  }
  [[nodiscard]] double get(std::size_t i) const {
    switch (dtype_) {
      case TRC_U8:
      case TRC_BOOL:
        return take<std::uint8_t>(i);
      case TRC_I8:
        return take<std::int8_t>(i);
      case TRC_I32:
        return take<std::int32_t>(i);
      case TRC_I64:
        return static_cast<double>(take<std::int64_t>(i));
      case TRC_F32:
        return static_cast<double>(take<float>(i));
      case TRC_F64:
        return take<double>(i);
      case TRC_F16:
        return value_of_half(take<std::uint16_t>(i), 10);
      case TRC_BF16:
        return value_of_half(take<std::uint16_t>(i), 7);
      case TRC_DTYPE_RANGE:
        break;
    }
    return NAN;
  }
  // Whether what lies around it is as it was.
  [[nodiscard]] bool intact() const {
    return bytes_.back() == guard && (offset_ == 0 || bytes_[offset_ - 1] == guard);
  }

 private:
  static constexpr char guard = 'g';
  template <class T>
  void put(std::size_t i, T element) {
    std::memcpy(bytes_.data() + offset_ + i * sizeof element, &element, sizeof element);
  }
  template <class T>
  [[nodiscard]] T take(std::size_t i) const {
    T element;
    std::memcpy(&element, bytes_.data() + offset_ + i * sizeof element, sizeof element);
    return element;
  }
  trc_dtype dtype_;
  std::size_t offset_;
  std::vector<char> bytes_;
};

// What the values of all ranks become, before they are stored. Whole numbers of few bits are assumed for
// bitwise operations.
inline double reference(trc_dtype dtype, trc_op op, const std::vector<double>& values) {
  double result = values.front();
  const auto both = [](double a, double b, auto work) {
    return static_cast<double>(work(static_cast<std::int64_t>(a), static_cast<std::int64_t>(b)));
  };
  for (std::size_t i = 1; i < values.size(); ++i) {
    const double next = values[i];
    if (op == TRC_SUM || op == TRC_MEAN) result += next;
    if (op == TRC_MIN) result = std::fmin(result, next);
    if (op == TRC_MAX) result = std::fmax(result, next);
    if (op == TRC_PROD) result *= next;
    if (op == TRC_BAND) result = both(result, next, [](auto a, auto b) { return a & b; });
    if (op == TRC_BOR) result = both(result, next, [](auto a, auto b) { return a | b; });
    if (op == TRC_BXOR) result = both(result, next, [](auto a, auto b) { return a ^ b; });
  }
  if (op == TRC_MEAN) result /= static_cast<double>(values.size());
  return as_stored(dtype, result);
}

}  // namespace trainrun::comm
