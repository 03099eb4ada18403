// For loops over elements in memory of the program's, which need not be aligned to them. The compiler makes
// plain moves of these. They are always inlined, so that a loop compiled for a newer processor has all of its
// code compiled for it, and none of it is taken for a loop that is not. For nvcc they are code of the device
// too.
#pragma once

#include <cstddef>

#ifdef __CUDACC__
#define TRAINRUN_INLINE __host__ __device__ __forceinline__
#else
#define TRAINRUN_INLINE [[gnu::always_inline]] inline
#endif

namespace trainrun::comm {

template <class T>
TRAINRUN_INLINE T load(const void* from, std::size_t index) {
  T value;
  __builtin_memcpy(&value, static_cast<const char*>(from) + index * sizeof(T), sizeof(T));
  return value;
}
template <class T>
TRAINRUN_INLINE void store(void* to, std::size_t index, T value) {
  __builtin_memcpy(static_cast<char*>(to) + index * sizeof(T), &value, sizeof(T));
}

}  // namespace trainrun::comm
