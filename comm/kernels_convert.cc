// Conversions between types and the wider ones that their sums are formed in.
#include <cstdint>

#include "comm/elements.h"
#include "comm/halves.h"
#include "comm/kernels.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace trainrun::comm {
namespace {

template <class T>
struct Integer {
  using Narrow = T;
  using Wide = std::int64_t;
  TRAINRUN_INLINE static std::int64_t up(T value) { return value; }
  TRAINRUN_INLINE static T down(std::int64_t value) { return static_cast<T>(value); }
};

template <class Type>
TRAINRUN_INLINE void up(void* wide, const void* in, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i)
    store<typename Type::Wide>(wide, i, Type::up(load<typename Type::Narrow>(in, i)));
}
template <class Type>
TRAINRUN_INLINE void down(void* out, const void* wide, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i)
    store<typename Type::Narrow>(out, i, Type::down(load<typename Type::Wide>(wide, i)));
}

template <class Type>
void widen_plain(void* wide, const void* in, std::size_t count) {
  up<Type>(wide, in, 0, count);
}
template <class Type>
void narrow_plain(void* out, const void* wide, std::size_t count) {
  down<Type>(out, wide, 0, count);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void widen_bf16_avx2(void* wide, const void* in, std::size_t count) {
  up<Bf16Codec>(wide, in, 0, count);
}
[[gnu::target("avx2")]] void narrow_bf16_avx2(void* out, const void* wide, std::size_t count) {
  down<Bf16Codec>(out, wide, 0, count);
}

[[gnu::target("avx2,f16c")]] void widen_f16_avx2(void* wide, const void* in, std::size_t count) {
  const auto* from = static_cast<const std::uint16_t*>(in);
  auto* const to = static_cast<float*>(wide);
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  up<F16Codec>(wide, in, i, count);
}
[[gnu::target("avx2,f16c")]] void narrow_f16_avx2(void* out, const void* wide, std::size_t count) {
  const auto* from = static_cast<const float*>(wide);
  auto* const to = static_cast<std::uint16_t*>(out);
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  down<F16Codec>(out, wide, i, count);
}

[[gnu::target("avx512f")]] void widen_f16_avx512(void* wide, const void* in, std::size_t count) {
  const auto* from = static_cast<const std::uint16_t*>(in);
  auto* const to = static_cast<float*>(wide);
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16)
    _mm512_storeu_ps(to + i, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i))));
  up<F16Codec>(wide, in, i, count);
}
[[gnu::target("avx512f")]] void narrow_f16_avx512(void* out, const void* wide, std::size_t count) {
  const auto* from = static_cast<const float*>(wide);
  auto* const to = static_cast<std::uint16_t*>(out);
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i),
                        _mm512_cvtps_ph(_mm512_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  down<F16Codec>(out, wide, i, count);
}
#endif

using Convert = void (*)(void* to, const void* from, std::size_t count);
struct Both {
  Convert widen, narrow;
};

Both conversions(trc_dtype dtype, Simd simd) {
  switch (dtype) {
    case TRC_F16:
#if defined(__x86_64__)
      if (simd == Simd::avx512) return {widen_f16_avx512, narrow_f16_avx512};
      if (simd == Simd::avx2) return {widen_f16_avx2, narrow_f16_avx2};
#endif
      return {widen_plain<F16Codec>, narrow_plain<F16Codec>};
    case TRC_BF16:
#if defined(__x86_64__)
      if (simd != Simd::plain) return {widen_bf16_avx2, narrow_bf16_avx2};
#endif
      return {widen_plain<Bf16Codec>, narrow_plain<Bf16Codec>};
    case TRC_U8:
      return {widen_plain<Integer<std::uint8_t>>, narrow_plain<Integer<std::uint8_t>>};
    case TRC_I8:
      return {widen_plain<Integer<std::int8_t>>, narrow_plain<Integer<std::int8_t>>};
    case TRC_I32:
      return {widen_plain<Integer<std::int32_t>>, narrow_plain<Integer<std::int32_t>>};
    default:  // its own wide type
      return {nullptr, nullptr};
  }
}

}  // namespace

void widen(void* wide, const void* in, std::size_t count, trc_dtype dtype, Simd simd) {
  if (const auto convert = conversions(dtype, simd).widen) convert(wide, in, count);
}

void narrow(void* out, const void* wide, std::size_t count, trc_dtype dtype, Simd simd) {
  if (const auto convert = conversions(dtype, simd).narrow) convert(out, wide, count);
}

}  // namespace trainrun::comm
