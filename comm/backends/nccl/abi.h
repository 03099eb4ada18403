// The part of NCCL's binary interface that is used here, in our own words: it has not changed since 2.14, and
// nothing of NCCL is needed to build. tests/unit/comm compares it with nccl.h where there is one.
#pragma once

#include <array>
#include <climits>
#include <cstddef>

namespace trainrun::comm::nccl {

using Handle = struct ncclComm*;  // opaque
using Stream = void*;             // cudaStream_t, CUstream

struct UniqueId {
  std::array<char, 128> bytes{};
};

// Any number may come, so this is no closed list.
enum class Answer : int {
  success = 0,
  cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7,
};

enum class Type : int { i8 = 0, u8 = 1, i32 = 2, i64 = 4, f16 = 6, f32 = 7, f64 = 8, bf16 = 9 };
enum class Reduce : int { sum = 0, prod = 1, max = 2, min = 3, avg = 4 };

// As 2.14 had it: a later library takes what it has of its own, and leaves the rest as it is by default.
struct Config {
  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
  int undefined = INT_MIN;  // what later versions have here
};
static_assert(sizeof(Config) == 24 && sizeof(UniqueId) == 128);

struct Functions {
  Answer (*get_version)(int*);
  Answer (*get_unique_id)(UniqueId*);
  const char* (*get_error_string)(Answer);
  const char* (*get_last_error)(Handle);
  Answer (*init_rank_config)(Handle*, int ranks, UniqueId, int rank, Config*);
  // Null before 2.23: several ids for one communicator.
  Answer (*init_rank_scalable)(Handle*, int ranks, int rank, int ids, UniqueId*, Config*);
  Answer (*get_async_error)(Handle, Answer*);
  Answer (*finalize)(Handle);
  Answer (*destroy)(Handle);
  Answer (*abort)(Handle);
  Answer (*all_reduce)(const void*, void*, std::size_t, Type, Reduce, Handle, Stream);
  Answer (*reduce)(const void*, void*, std::size_t, Type, Reduce, int root, Handle, Stream);
  Answer (*broadcast)(const void*, void*, std::size_t, Type, int root, Handle, Stream);
  Answer (*reduce_scatter)(const void*, void*, std::size_t, Type, Reduce, Handle, Stream);
  Answer (*all_gather)(const void*, void*, std::size_t, Type, Handle, Stream);
  Answer (*send)(const void*, std::size_t, Type, int peer, Handle, Stream);
  Answer (*recv)(void*, std::size_t, Type, int peer, Handle, Stream);
  Answer (*group_start)();
  Answer (*group_end)();
};

}  // namespace trainrun::comm::nccl
