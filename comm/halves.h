// 16-bit floats and f32, in the same way for the processor and for devices: to the nearest, halfway to even;
// what is no number stays none.
#pragma once

#include <cstdint>

#include "comm/elements.h"

namespace trainrun::comm {

constexpr std::uint32_t f32_infinity = 0x7f800000;

TRAINRUN_INLINE std::uint32_t bits_of(float value) { return __builtin_bit_cast(std::uint32_t, value); }
TRAINRUN_INLINE float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

TRAINRUN_INLINE float f32_of_f16(std::uint16_t half) {
#ifdef __CUDA_ARCH__  // an instruction that does the same, but for the payload of what is no number
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
  return value;
#endif
  // The exponent's bias differs by 112; so scaled, what is subnormal in f16 becomes normal.
  const auto magnitude = bits_of(float_of((half & 0x7fffU) << 13) * 0x1p112F);
  const bool finite = (half & 0x7c00U) != 0x7c00U;
  return float_of((finite ? magnitude : magnitude | f32_infinity) | (half & 0x8000U) << 16);
}

TRAINRUN_INLINE std::uint16_t f16_of_f32(float value) {
#ifdef __CUDA_ARCH__
  std::uint16_t half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
  return half;
#endif
  const auto sign = bits_of(value) & 0x80000000U;
  auto bits = bits_of(value) ^ sign;
  if (bits >= bits_of(65536.0F)) {
    bits = bits > f32_infinity ? 0x7e00 : 0x7c00;
  } else if (bits < bits_of(0x1p-14F)) {
    bits = bits_of(float_of(bits) + 0.5F) - bits_of(0.5F);  // the addition rounds to f16's smallest unit
  } else {
    const auto odd = bits >> 13 & 1;
    bits = (bits - (112U << 23) + 0xfff + odd) >> 13;
  }
  return static_cast<std::uint16_t>(bits | sign >> 16);
}

TRAINRUN_INLINE float f32_of_bf16(std::uint16_t half) { return float_of(std::uint32_t{half} << 16); }

TRAINRUN_INLINE std::uint16_t bf16_of_f32(float value) {
  const auto bits = bits_of(value);
  const bool is_nan = (bits & 0x7fffffffU) > f32_infinity;
  const auto rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return static_cast<std::uint16_t>(is_nan ? bits >> 16 | 0x40 : rounded);
}

struct F16Codec {
  using Narrow = std::uint16_t;
  using Wide = float;
  TRAINRUN_INLINE static float up(std::uint16_t half) { return f32_of_f16(half); }
  TRAINRUN_INLINE static std::uint16_t down(float value) { return f16_of_f32(value); }
};
struct Bf16Codec {
  using Narrow = std::uint16_t;
  using Wide = float;
  TRAINRUN_INLINE static float up(std::uint16_t half) { return f32_of_bf16(half); }
  TRAINRUN_INLINE static std::uint16_t down(float value) { return bf16_of_f32(value); }
};

}  // namespace trainrun::comm
