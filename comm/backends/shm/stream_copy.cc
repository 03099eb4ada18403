#include "comm/backends/shm/stream_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace trainrun::comm {

void stream_copy(void* to, const void* from, std::size_t bytes) {
#if defined(__x86_64__)
  constexpr std::size_t line = 64;
  auto* out = static_cast<char*>(to);
  const auto* in = static_cast<const char*>(from);
  const auto copy = [&](std::size_t length) {
    std::memcpy(out, in, length);
    out += length, in += length, bytes -= length;
  };
  copy(std::min<std::size_t>(bytes, (line - reinterpret_cast<std::uintptr_t>(out) % line) % line));
  for (; bytes >= line; out += line, in += line, bytes -= line) {
    const auto* const source = reinterpret_cast<const __m128i*>(in);
    auto* const target = reinterpret_cast<__m128i*>(out);
    const auto a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1), c = _mm_loadu_si128(source + 2),
               d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  copy(bytes);
  _mm_sfence();
#else
  if (bytes > 0) std::memcpy(to, from, bytes);
#endif
}

}  // namespace trainrun::comm
