// What one launch of the kernel does: elements of several buffers are read, scaled and written as another
// type, into the fusion buffer or out of it. Pieces come by value in the kernel's parameters, of which a
// device takes 4 KiB, so that nothing has to be copied there before. The same code runs on the host, for
// tests.
#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/halves.h"

namespace trainrun::comm::nccl {

enum class Element : std::uint32_t { f32, f16, bf16 };

struct Piece {
  const void* in = nullptr;
  void* out = nullptr;
  std::uint64_t count = 0;
  Element from = Element::f32, to = Element::f32;
};

constexpr std::uint32_t most_pieces = 120;
struct Batch {
  Piece pieces[most_pieces];
  float factor = 1;
};
static_assert(sizeof(Batch) <= 4096);

// A thread of a grid of `columns` x pieces blocks: blocks of the same row share a piece.
struct Worker {
  std::uint32_t row, column, columns;
  std::uint32_t thread, threads;  // of the block
};

struct F32Codec {
  using Narrow = float;
  TRAINRUN_INLINE static float up(float value) { return value; }
  TRAINRUN_INLINE static float down(float value) { return value; }
};

// A factor of 1 is left out, so that what is no number keeps its bits where the type stays the same.
template <class From, class To>
TRAINRUN_INLINE void convert(const Piece& piece, float factor, const Worker& me) {
  const auto* __restrict__ const in = static_cast<const typename From::Narrow*>(piece.in);
  auto* __restrict__ const out = static_cast<typename To::Narrow*>(piece.out);
  const auto step = std::uint64_t{me.columns} * me.threads;
  for (auto i = std::uint64_t{me.column} * me.threads + me.thread; i < piece.count; i += step)
    out[i] = To::down(factor == 1 ? From::up(in[i]) : From::up(in[i]) * factor);
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

TRAINRUN_INLINE void convert(const Batch& batch, const Worker& me) {
  const Piece piece = batch.pieces[me.row];
  if (piece.from == Element::f32)
    convert<F32Codec>(piece, batch.factor, me);
  else if (piece.from == Element::f16)
    convert<F16Codec>(piece, batch.factor, me);
  else
    convert<Bf16Codec>(piece, batch.factor, me);
}

}  // namespace trainrun::comm::nccl
