// trainrun_comm for C++20: a thin, header-only layer over the C interface. Failures are exceptions, one type
// for each kind; trainrun_comm.h says what they mean, and where a process gets its place from.
//
//   auto world = trainrun::comm::World::init();
//   world.group().allreduce(std::span(gradients), trainrun::comm::Op::mean);
//   world.shutdown();
#pragma once

#if __cplusplus <= 201703L
#error "trainrun_comm.hpp needs C++20: -std=c++20"
#endif

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "trainrun_comm.h"

namespace trainrun::comm {

struct Error : std::runtime_error {
  explicit Error(const trc_error_info& info)
      : std::runtime_error(info.message),
        status(static_cast<trc_status>(info.status)),
        generation(info.generation),
        operation(info.operation),
        sequence(info.sequence) {
    if (info.culprit >= 0) culprit = info.culprit;
    for (std::uint32_t i = 0; i < info.missing_count && i < 64; ++i) missing.push_back(info.missing[i]);
    host = info.host;
    how = info.how;
  }
  trc_status status;
  std::uint32_t generation;
  std::string operation;  // "allreduce"
  std::uint64_t sequence;
  std::optional<int> culprit;  // rank
  std::string host, how;       // of the culprit
  std::vector<int> missing;    // ranks that did not come, the first 64
};
struct PeerLost : Error {
  using Error::Error;
};
struct Aborted : Error {
  using Error::Error;
};
struct Timeout : Error {
  using Error::Error;
};
struct Mismatch : Error {
  using Error::Error;
};
struct Transport : Error {
  using Error::Error;
};
struct Invalid : Error {
  using Error::Error;
};
struct Unsupported : Error {
  using Error::Error;
};

struct Device : Error {
  using Error::Error;
};
struct RestartRequired : Error {
  using Error::Error;
};

// Elastic programs alone, and no failures: trainrun_elastic.hpp.
struct HostsUpdated : Error {
  using Error::Error;
};
struct Removed : Error {
  using Error::Error;
};

enum class Op {
  sum = TRC_SUM,
  mean = TRC_MEAN,
  min = TRC_MIN,
  max = TRC_MAX,
  product = TRC_PROD,
  band = TRC_BAND,
  bor = TRC_BOR,
  bxor = TRC_BXOR
};

// Floats of 16 bits, as they lie in memory; the language has none.
struct F16 {
  std::uint16_t bits = 0;
};
struct Bf16 {
  std::uint16_t bits = 0;
};

namespace detail {

template <class T>
constexpr trc_dtype dtype_of() {
  if constexpr (std::is_same_v<T, bool>)
    return TRC_BOOL;
  else if constexpr (std::is_same_v<T, F16>)
    return TRC_F16;
  else if constexpr (std::is_same_v<T, Bf16>)
    return TRC_BF16;
  else if constexpr (std::is_same_v<T, float>)
    return TRC_F32;
  else if constexpr (std::is_same_v<T, double>)
    return TRC_F64;
  else if constexpr (std::is_integral_v<T> && std::is_signed_v<T> && sizeof(T) == 1)
    return TRC_I8;
  else if constexpr (std::is_integral_v<T> && std::is_signed_v<T> && sizeof(T) == 4)
    return TRC_I32;
  else if constexpr (std::is_integral_v<T> && std::is_signed_v<T> && sizeof(T) == 8)
    return TRC_I64;
  else {
    static_assert(std::is_integral_v<T> && sizeof(T) == 1, "no element type of trainrun_comm");
    return TRC_U8;
  }
}

inline void check(trc_status status) {
  if (status == TRC_OK) return;
  trc_error_info info{};
  info.struct_size = sizeof info;
  trc_last_error(&info);
  switch (status) {
    case TRC_PEER_LOST:
      throw PeerLost(info);
    case TRC_ABORTED:
      throw Aborted(info);
    case TRC_TIMEOUT:
      throw Timeout(info);
    case TRC_MISMATCH:
      throw Mismatch(info);
    case TRC_TRANSPORT:
      throw Transport(info);
    case TRC_INVALID:
      throw Invalid(info);
    case TRC_UNSUPPORTED:
      throw Unsupported(info);
    case TRC_HOSTS_UPDATED:
      throw HostsUpdated(info);
    case TRC_REMOVED:
      throw Removed(info);
    case TRC_DEVICE:
      throw Device(info);
    case TRC_RESTART_REQUIRED:
      throw RestartRequired(info);
    default:
      throw Error(info);
  }
}

}  // namespace detail

struct Options {
  std::chrono::milliseconds op_timeout{0}, init_timeout{0};  // 0: from the environment, or the defaults
};

// Belongs to its World. What the operations do, and which buffers may be the same, is said in
// trainrun_comm.h; where a buffer holds a block for each rank, its size says how long they are.
class Group {
 public:
  explicit Group(trc_group* group) : group_(group) {}

  [[nodiscard]] int rank() const { return trc_group_rank(group_); }
  [[nodiscard]] int size() const { return trc_group_size(group_); }
  [[nodiscard]] trc_group* handle() const { return group_; }

  template <class T>
  void allreduce(std::span<T> data, Op op = Op::sum) const {
    allreduce(std::span<const T>(data), data, op);
  }
  // Each rank's elements are multiplied by `before`, the results by `after`.
  template <class T>
  void allreduce(std::span<const T> in, std::span<T> out, Op op = Op::sum, double before = 1,
                 double after = 1) const {
    same("allreduce", in.size(), out.size());
    detail::check(trc_allreduce_scaled(group_, in.data(), out.data(), in.size(), detail::dtype_of<T>(),
                                       static_cast<trc_op>(op), before, after));
  }
  template <class T, std::size_t size>
  requires(size != std::dynamic_extent)  // of an array
      void allreduce(std::span<T, size> data, Op op = Op::sum) const {
    allreduce(std::span<T>(data), op);
  }
  template <class T>
  requires std::is_arithmetic_v<T> T allreduce(T value, Op op = Op::sum)
  const {
    allreduce(std::span<T>(&value, 1), op);
    return value;
  }
  // `out` may be empty but on `root`.
  template <class T>
  void reduce(std::span<const T> in, std::span<T> out, int root, Op op = Op::sum) const {
    if (rank() == root) same("reduce", in.size(), out.size());
    detail::check(trc_reduce(group_, in.data(), out.data(), in.size(), detail::dtype_of<T>(),
                             static_cast<trc_op>(op), root));
  }
  template <class T>
  void reduce_scatter(std::span<const T> in, std::span<T> out, Op op = Op::sum) const {
    same("reduce_scatter", in.size(), blocks(out.size()));
    detail::check(trc_reduce_scatter(group_, in.data(), out.data(), out.size(), detail::dtype_of<T>(),
                                     static_cast<trc_op>(op)));
  }
  template <class T>
  void broadcast(std::span<T> data, int root) const {
    detail::check(trc_broadcast(group_, data.data(), data.size(), detail::dtype_of<T>(), root));
  }
  template <class T, std::size_t size>
  requires(size != std::dynamic_extent) void broadcast(std::span<T, size> data, int root) const {
    broadcast(std::span<T>(data), root);
  }
  template <class T>
  void allgather(std::span<const T> in, std::span<T> out) const {
    same("allgather", blocks(in.size()), out.size());
    detail::check(trc_allgather(group_, in.data(), out.data(), in.size(), detail::dtype_of<T>()));
  }
  template <class T>
  std::vector<T> allgather(std::span<const T> in, int size) const {
    std::vector<T> out(in.size() * static_cast<std::size_t>(size));
    detail::check(trc_allgather(group_, in.data(), out.data(), in.size(), detail::dtype_of<T>()));
    return out;
  }
  // `counts`: the elements of each rank, the same on all.
  template <class T>
  void allgatherv(std::span<const T> in, std::span<T> out, std::span<const std::uint64_t> counts) const {
    same("allgatherv", counts.size(), blocks(1));
    same("allgatherv", in.size(), counts[static_cast<std::size_t>(rank())]);
    same("allgatherv", out.size(), sum(counts));
    detail::check(trc_allgatherv(group_, in.data(), out.data(), counts.data(), detail::dtype_of<T>()));
  }
  // `out` may be empty but on `root`.
  template <class T>
  void gather(std::span<const T> in, std::span<T> out, int root) const {
    if (rank() == root) same("gather", blocks(in.size()), out.size());
    detail::check(trc_gather(group_, in.data(), out.data(), in.size(), detail::dtype_of<T>(), root));
  }
  // `in` may be empty but on `root`.
  template <class T>
  void scatter(std::span<const T> in, std::span<T> out, int root) const {
    if (rank() == root) same("scatter", in.size(), blocks(out.size()));
    detail::check(trc_scatter(group_, in.data(), out.data(), out.size(), detail::dtype_of<T>(), root));
  }
  template <class T>
  void alltoall(std::span<const T> in, std::span<T> out) const {
    const auto count = in.size() / blocks(1);
    same("alltoall", in.size(), out.size());
    same("alltoall", in.size(), blocks(count));
    detail::check(trc_alltoall(group_, in.data(), out.data(), count, detail::dtype_of<T>()));
  }
  template <class T>
  void alltoallv(std::span<const T> in, std::span<const std::uint64_t> in_counts, std::span<T> out,
                 std::span<const std::uint64_t> out_counts) const {
    same("alltoallv", in_counts.size(), blocks(1));
    same("alltoallv", out_counts.size(), blocks(1));
    same("alltoallv", in.size(), sum(in_counts));
    same("alltoallv", out.size(), sum(out_counts));
    detail::check(trc_alltoallv(group_, in.data(), in_counts.data(), out.data(), out_counts.data(),
                                detail::dtype_of<T>()));
  }
  void barrier() const { detail::check(trc_barrier(group_)); }
  void join() const { detail::check(trc_join(group_)); }
  template <class T>
  void send(std::span<const T> data, int to) const {
    detail::check(trc_send(group_, data.data(), data.size(), detail::dtype_of<T>(), to));
  }
  template <class T>
  void receive(std::span<T> data, int from) const {
    detail::check(trc_recv(group_, data.data(), data.size(), detail::dtype_of<T>(), from));
  }

 private:
  static void same(const char* operation, std::size_t one, std::size_t other) {
    if (one != other) throw std::invalid_argument(std::string(operation) + ": sizes do not fit together");
  }
  [[nodiscard]] std::size_t blocks(std::size_t count) const {
    return count * static_cast<std::size_t>(size());
  }
  static std::size_t sum(std::span<const std::uint64_t> counts) {
    std::size_t total = 0;
    for (const auto count : counts) total += count;
    return total;
  }
  trc_group* group_;
};

class World {
 public:
  static World init(const Options& options = {}) {
    trc_options plain{};
    plain.struct_size = sizeof plain;
    plain.op_timeout_ms = options.op_timeout.count();
    plain.init_timeout_ms = options.init_timeout.count();
    trc_world* world = nullptr;
    detail::check(trc_world_init(&plain, &world));
    return World(world);
  }

  // The orderly end, together with all other ranks; what has failed before is thrown again. The destructor
  // alone waits for them for a second at most.
  void shutdown() { detail::check(trc_world_finalize(world_.get())); }

  [[nodiscard]] int rank() const { return trc_rank(world_.get()); }
  [[nodiscard]] int size() const { return trc_size(world_.get()); }
  [[nodiscard]] int local_rank() const { return trc_local_rank(world_.get()); }
  [[nodiscard]] int local_size() const { return trc_local_size(world_.get()); }
  [[nodiscard]] std::uint32_t generation() const { return trc_generation(world_.get()); }
  [[nodiscard]] std::string host(int rank) const {
    const char* name = trc_host(world_.get(), rank);
    return name == nullptr ? std::string() : std::string(name);
  }
  // "shm", "gloo", "hier" or "local".
  [[nodiscard]] std::string backend() const { return trc_backend(world_.get()); }
  [[nodiscard]] Group group() const { return Group(trc_world_group(world_.get())); }
  // Some of the ranks, all of which call it; nothing on a rank that is none of them.
  [[nodiscard]] std::optional<Group> group(std::span<const int> ranks) const {
    trc_group* group = nullptr;
    detail::check(trc_group_create(world_.get(), ranks.data(), ranks.size(), &group));
    return group == nullptr ? std::nullopt : std::optional<Group>(Group(group));
  }
  // All members call it; no copy of the group is good afterwards.
  void free(const Group& group) const { detail::check(trc_group_free(group.handle())); }

  // The same without waiting for the others; see trc_group_leave.
  void leave(const Group& group) const { detail::check(trc_group_leave(group.handle())); }

  // One that somebody else owns, who also ends it.
  static World borrowed(trc_world* world) { return World(world, Free{false}); }
  [[nodiscard]] trc_world* handle() const { return world_.get(); }

 private:
  struct Free {
    bool owned;
    void operator()(trc_world* world) const {
      if (owned) trc_world_free(world);
    }
  };
  explicit World(trc_world* world, Free free = Free{true}) : world_(world, free) {}
  std::unique_ptr<trc_world, Free> world_;
};

}  // namespace trainrun::comm
