// One rank of tests/bench/collectives: times blocking allreduces through the C interface, a buffer of its own
// for each, with values that change, and on rank 0 prints a line "BACKEND BYTES MICROSECONDS CORRECT" for
// each size: the median over calls of the slowest rank. With "copy" instead of "allreduce" each rank copies
// as many bytes at the same time: what memory allows.
//
//   bench_collective_rank allreduce|copy ROUNDS BYTES...
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "comm/trainrun_comm.h"

namespace {

constexpr std::size_t touched = std::size_t{64}
                                << 20;  // buffers in turns, so that no cache holds the next one

constexpr std::size_t awaited_from = std::size_t{1} << 20;  // where a barrier takes no time beside a copy

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

bool failed(trc_status status) {
  if (status == TRC_OK) return false;
  trc_error_info info{};
  info.struct_size = sizeof info;
  trc_last_error(&info);
  std::fprintf(stderr, "bench_collective_rank: %s\n", info.message);
  return true;
}

struct Measured {
  double median = 0;
  bool correct = true, broken = false;
};

Measured measure(trc_world* world, bool copy, std::size_t bytes, int rounds) {
  auto* const group = trc_world_group(world);
  const auto rank = static_cast<float>(trc_rank(world));
  const auto size = static_cast<float>(trc_size(world));
  const auto count = bytes / sizeof(float);
  // Small buffers stay in the cache in any program that has just computed them.
  const std::size_t buffers = bytes < 64 * 1024 ? 1 : std::clamp<std::size_t>(touched / bytes, 1, 8);
  std::vector<std::vector<float>> in(buffers), out(buffers);
  for (std::size_t i = 0; i < buffers; ++i) {
    in[i].assign(count, rank + static_cast<float>(i));
    out[i].assign(count, 0);
  }
  Measured measured;
  std::vector<double> times;
  const int calls = copy ? 1 : bytes <= 4096 ? 200 : 1;  // short calls are timed together
  for (int round = 0; round < rounds + 2; ++round) {
    const auto b = static_cast<std::size_t>(round) % buffers;
    if (failed(trc_barrier(group))) return measured.broken = true, measured;
    const auto begin = now_us();
    for (int call = 0; call < calls; ++call) {
      if (copy)
        std::memcpy(out[b].data(), in[b].data(), bytes);
      else if (failed(trc_allreduce(group, in[b].data(), out[b].data(), count, TRC_F32, TRC_SUM)))
        return measured.broken = true, measured;
    }
    // Ranks that share a core copy one after the other: the last one's end counts, as it does for an
    // operation.
    if (copy && bytes >= awaited_from && failed(trc_barrier(group))) return measured.broken = true, measured;
    double took = (now_us() - begin) / calls;
    const float expected = copy ? in[b].front() : size * (size - 1) / 2 + size * static_cast<float>(b);
    if (count > 0 && (out[b].front() != expected || out[b].back() != expected)) measured.correct = false;
    if (failed(trc_allreduce(group, &took, &took, 1, TRC_F64, TRC_MAX)))
      return measured.broken = true, measured;
    if (round >= 2) times.push_back(took);
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  measured.median = times[times.size() / 2];
  return measured;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4)
    return std::fprintf(stderr, "usage: bench_collective_rank allreduce|copy ROUNDS BYTES...\n"), 2;
  const bool copy = std::string(argv[1]) == "copy";
  trc_world* world = nullptr;
  if (failed(trc_world_init(nullptr, &world))) return 1;
  for (int i = 3; i < argc; ++i) {
    const auto bytes = std::strtoull(argv[i], nullptr, 10);
    const auto measured = measure(world, copy, bytes, std::atoi(argv[2]));
    if (measured.broken) return 1;
    if (trc_rank(world) == 0)
      std::printf("%s %llu %.3f %s\n", copy ? "copy" : trc_backend(world), bytes, measured.median,
                  measured.correct ? "right" : "wrong");
  }
  const bool ended = !failed(trc_world_finalize(world));
  trc_world_free(world);
  return ended ? 0 : 1;
}
