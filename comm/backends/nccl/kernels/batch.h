// What one launch of the kernel does: elements of several buffers are read, scaled and written as another
// type, into the fusion buffer or out of it. Pieces come by value in the kernel's parameters, of which a
// device takes 4 KiB, so that nothing has to be copied there before. The same code runs on the host, for
// tests.
#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/halves.h"

namespace trainrun::comm::nccl {

enum class Element : std::uint8_t { f32, f16, bf16 };

struct Piece {
  const void* in = nullptr;
  void* out = nullptr;
  std::uint64_t count = 0;
  Element from = Element::f32, to = Element::f32;
  std::uint32_t first_block = 0;  // the blocks of the batch's pieces come one after another
};

// Each block takes so many elements of one piece, so that pieces of all sizes keep the device busy.
constexpr std::uint64_t elements_of_block = 4096;
constexpr std::uint32_t blocks_of(std::uint64_t count) {
  return static_cast<std::uint32_t>((count + elements_of_block - 1) / elements_of_block);
}
// Read and written at once, where memory is aligned to 16 bytes.
constexpr std::uint64_t together = 8;

constexpr std::uint32_t most_pieces = 120;
struct Batch {
  Piece pieces[most_pieces];
  std::uint32_t count = 0;
  float factor = 1;
};
static_assert(sizeof(Batch) <= 4096);

struct Worker {
  std::uint32_t block, thread, threads;
};

struct F32Codec {
  using Narrow = float;
  TRAINRUN_INLINE static float up(float value) { return value; }
  TRAINRUN_INLINE static float down(float value) { return value; }
};

template <class T>
struct alignas(16) Together {
  T values[together];
};

// Of aligned memory. nvcc 13.0 makes one access of a copy of a struct, and fails on __builtin_assume_aligned.
template <class T>
TRAINRUN_INLINE Together<T> taken(const T* from) {
#ifdef __CUDA_ARCH__
  return *reinterpret_cast<const Together<T>*>(from);
#else
  Together<T> values;
  __builtin_memcpy(&values, from, sizeof values);
  return values;
#endif
}
template <class T>
TRAINRUN_INLINE void put(const Together<T>& values, T* to) {
#ifdef __CUDA_ARCH__
  *reinterpret_cast<Together<T>*>(to) = values;
#else
  __builtin_memcpy(to, &values, sizeof values);
#endif
}

TRAINRUN_INLINE bool aligned(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % 16 == 0;
}

// A factor of 1 is left out, so that what is no number keeps its bits where the type stays the same.
template <class From, class To>
TRAINRUN_INLINE typename To::Narrow converted(typename From::Narrow value, float factor) {
  return To::down(factor == 1 ? From::up(value) : From::up(value) * factor);
}

template <class From, class To>
TRAINRUN_INLINE void convert(const Piece& piece, float factor, const Worker& me) {
  const auto begin = (me.block - piece.first_block) * elements_of_block;
  const auto left = piece.count - begin < elements_of_block ? piece.count - begin : elements_of_block;
  const auto* __restrict__ const in = static_cast<const typename From::Narrow*>(piece.in) + begin;
  auto* __restrict__ const out = static_cast<typename To::Narrow*>(piece.out) + begin;
  std::uint64_t done = 0;
  if (aligned(in) && aligned(out)) {
    done = left / together * together;
    for (auto i = me.thread * together; i < done; i += me.threads * together) {
      const auto given = taken(in + i);
      Together<typename To::Narrow> made;
      for (std::uint64_t k = 0; k < together; ++k)
        made.values[k] = converted<From, To>(given.values[k], factor);
      put(made, out + i);
    }
  }
  for (auto i = done + me.thread; i < left; i += me.threads) out[i] = converted<From, To>(in[i], factor);
}

template <class From>
TRAINRUN_INLINE void convert(const Piece& piece, float factor, const Worker& me) {
  if (piece.to == Element::f32)
    convert<From, F32Codec>(piece, factor, me);
  else if (piece.to == Element::f16)
    convert<From, F16Codec>(piece, factor, me);
  else
    convert<From, Bf16Codec>(piece, factor, me);
}

// The last piece whose first block is not behind this one.
TRAINRUN_INLINE std::uint32_t piece_of(const Batch& batch, std::uint32_t block) {
  std::uint32_t low = 0, high = batch.count;
  while (high - low > 1) {
    const auto middle = (low + high) / 2;
    if (batch.pieces[middle].first_block <= block)
      low = middle;
    else
      high = middle;
  }
  return low;
}

TRAINRUN_INLINE void convert(const Batch& batch, const Worker& me) {
  const Piece piece = batch.pieces[piece_of(batch, me.block)];
  if (piece.from == Element::f32)
    convert<F32Codec>(piece, batch.factor, me);
  else if (piece.from == Element::f16)
    convert<F16Codec>(piece, batch.factor, me);
  else
    convert<Bf16Codec>(piece, batch.factor, me);
}

}  // namespace trainrun::comm::nccl
