// What lies where in the memory that the ranks of a host share. All of them map the same bytes, written by
// one build: whoever finds another magic or length in it does not use it.
//
//   Control | cores of each rank | two headers a rank | two pieces a rank, two results | the same, large
//
// Whatever there are two of is used in turns, by the number of the step. What is large is nobody's memory
// until the first operation that is.
#pragma once

#include <sched.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "comm/backends/backend.h"
#include "comm/backends/shm/segment.h"

namespace trainrun::comm {

inline constexpr std::size_t cache_line = 64;
// Bytes that a rank hands over in one step. The more, the fewer steps, at the end of which ranks wait for
// each other; and the more memory, which a program with many groups has many times.
inline constexpr std::size_t shm_piece = std::size_t{256} << 10;
// Of operations on `large_from` bytes and more, among few ranks.
inline constexpr std::size_t large_from = std::size_t{1} << 20;
constexpr std::size_t shm_large_piece(std::uint32_t ranks) { return std::size_t{ranks <= 8 ? 1U : 0U} << 20; }
inline constexpr std::uint64_t shm_magic = 0x35306d6873727474;  // changes with the layout

// How ranks that sleep at the end of a step are woken; see gate.h.
struct GateWords {
  alignas(cache_line) std::atomic<std::uint32_t> bell;  // bit 0: over; above it, how often it was rung
  alignas(cache_line) std::atomic<std::uint32_t> sleepers;
};

struct Control {
  std::uint64_t magic;
  std::uint32_t ranks;
  std::array<unsigned char, 16> nonce;
  GateWords gate;
  std::atomic<std::uint32_t> without_large;  // ranks that could not have their large pieces
};
// Of one rank and step, on one cache line: that it has come to the end of the step, and what it is about to
// do.
struct Header {
  alignas(cache_line) std::atomic<std::uint32_t> arrived;  // the number of steps that it has ended
  Descriptor what;
};
static_assert(std::is_trivially_copyable_v<Descriptor>);
static_assert(sizeof(Header) == cache_line);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

class Layout {
 public:
  Layout(char* base, std::uint32_t ranks) : base_(base), ranks_(ranks) {}

  static constexpr Segment::Bytes bytes(std::uint32_t ranks) {
    const auto first = large_at(ranks);
    return {first, first + 2 * (ranks + 1) * shm_large_piece(ranks)};
  }

  [[nodiscard]] Control& control() const { return *reinterpret_cast<Control*>(base_); }
  [[nodiscard]] cpu_set_t& cores(std::uint32_t rank) const {
    return reinterpret_cast<cpu_set_t*>(base_ + cores_at)[rank];
  }
  // Two for each rank, one after the other.
  [[nodiscard]] Header* headers() const { return reinterpret_cast<Header*>(base_ + headers_at(ranks_)); }
  // The results come behind the last rank's pieces.
  [[nodiscard]] char* piece(std::uint32_t rank, std::uint32_t step) const {
    return base_ + data_at(ranks_) + (2 * rank + step % 2) * shm_piece;
  }
  [[nodiscard]] char* large_piece(std::uint32_t rank, std::uint32_t step) const {
    return base_ + large_at(ranks_) + (2 * rank + step % 2) * shm_large_piece(ranks_);
  }

 private:
  static constexpr std::size_t page(std::size_t bytes) { return (bytes + 4095) / 4096 * 4096; }
  static constexpr std::size_t cores_at = 4096;
  static_assert(sizeof(Control) <= cores_at);
  static constexpr std::size_t headers_at(std::uint32_t ranks) {
    return page(cores_at + ranks * sizeof(cpu_set_t));
  }
  static constexpr std::size_t data_at(std::uint32_t ranks) {
    return page(headers_at(ranks) + 2 * ranks * sizeof(Header));
  }
  // On a page, also where those have 64 KiB.
  static constexpr std::size_t large_at(std::uint32_t ranks) {
    return (data_at(ranks) + 2 * (ranks + 1) * shm_piece + 65535) / 65536 * 65536;
  }

  char* base_;
  std::uint32_t ranks_;
};

}  // namespace trainrun::comm
