// A rank for the tests of comm. `comm_worker MODE`; what it finds goes to stdout in lines.
//   ops       every operation on every type against the expected values; "ok RANK SIZE"
//   loop      allreduces until something fails; "running" after the first ones
//   mismatch  rank 1 reduces another number of elements
//   late      rank 0 is in a barrier, the others come when their input ends
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>

#include "trainrun_comm.hpp"

namespace {

using namespace trainrun::comm;

int complain(const char* what, const char* type, std::size_t count) {
  std::printf("wrong %s %s %zu\n", what, type, count);
  std::fflush(stdout);
  return 1;
}

// Values small enough that a product of four ranks fits in a signed byte.
template <class T>
T value(int rank, std::size_t i) {
  return static_cast<T>(1 + (static_cast<std::size_t>(rank) + i) % 3);
}

template <class T>
T expected(Op op, int size, std::size_t i) {
  T result = value<T>(0, i);
  for (int rank = 1; rank < size; ++rank) {
    const T next = value<T>(rank, i);
    if (op == Op::sum || op == Op::mean) result = static_cast<T>(result + next);
    if (op == Op::min) result = std::min(result, next);
    if (op == Op::max) result = std::max(result, next);
    if (op == Op::product) result = static_cast<T>(result * next);
  }
  return op == Op::mean ? static_cast<T>(result / static_cast<T>(size)) : result;
}

template <class T>
int try_type(const World& world, const char* type) {
  const auto group = world.group();
  for (const std::size_t count : {0, 1, 5, 1001}) {
    std::vector<T> in(count), out(count);
    for (std::size_t i = 0; i < count; ++i) in[i] = value<T>(world.rank(), i);
    for (const Op op : {Op::sum, Op::mean, Op::min, Op::max, Op::product}) {
      group.allreduce(std::span<const T>(in), std::span(out), op);
      for (std::size_t i = 0; i < count; ++i)
        if (out[i] != expected<T>(op, world.size(), i)) return complain("allreduce", type, count);
    }
    auto in_place = in;
    group.allreduce(std::span(in_place));
    for (std::size_t i = 0; i < count; ++i)
      if (in_place[i] != expected<T>(Op::sum, world.size(), i))
        return complain("allreduce in place", type, count);
    for (int root = 0; root < world.size(); ++root) {
      auto data = in;
      group.broadcast(std::span(data), root);
      for (std::size_t i = 0; i < count; ++i)
        if (data[i] != value<T>(root, i)) return complain("broadcast", type, count);
    }
    const auto all = group.allgather(std::span<const T>(in), world.size());
    for (int rank = 0; rank < world.size(); ++rank)
      for (std::size_t i = 0; i < count; ++i)
        if (all[static_cast<std::size_t>(rank) * count + i] != value<T>(rank, i))
          return complain("allgather", type, count);
  }
  return 0;
}

int ops() {
  auto world = World::init();
  int bad = try_type<unsigned char>(world, "u8") + try_type<signed char>(world, "i8") +
            try_type<int>(world, "i32") + try_type<long>(world, "i64") + try_type<float>(world, "f32") +
            try_type<double>(world, "f64");
  std::vector<float> large(1 << 20, static_cast<float>(world.rank() + 1));
  world.group().allreduce(std::span(large), Op::max);
  if (large.front() != static_cast<float>(world.size()) || large.back() != large.front())
    bad += complain("large allreduce", "f32", large.size());
  // The mean of bytes is formed where their sum would wrap.
  if (world.group().allreduce<unsigned char>(200, Op::mean) != 200) bad += complain("mean", "u8", 1);
  world.group().barrier();
  std::printf("%s %d %d local %d %d\n", bad == 0 ? "ok" : "bad", world.rank(), world.size(),
              world.local_rank(), world.local_size());
  world.shutdown();
  return bad == 0 ? 0 : 1;
}

int loop() {
  auto world = World::init();
  std::vector<float> data(100'000, 1.0F);
  for (int step = 0; step < 1'000'000; ++step) {
    world.group().allreduce(std::span(data), Op::max);
    if (step == 5) {
      std::printf("running\n");
      std::fflush(stdout);
    }
  }
  return 0;
}

int mismatch() {
  auto world = World::init();
  std::vector<float> data(world.rank() == 1 ? 1000 : 2000);
  world.group().allreduce(std::span(data));
  return 0;
}

int late() {
  auto world = World::init();
  std::printf("running\n");
  std::fflush(stdout);
  if (world.rank() > 0) std::getchar();  // until the test lets go
  world.group().barrier();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  try {
    if (mode == "ops") return ops();
    if (mode == "loop") return loop();
    if (mode == "mismatch") return mismatch();
    if (mode == "late") return late();
    std::fprintf(stderr, "usage: comm_worker ops|loop|mismatch|late\n");
    return 2;
  } catch (const Error& error) {
    std::string missing;
    for (const int rank : error.missing) missing += " " + std::to_string(rank);
    std::printf("failed %s culprit %d host %s missing%s how %s\n", trc_status_name(error.status),
                error.culprit.value_or(-1), error.host.empty() ? "-" : error.host.c_str(),
                missing.empty() ? " -" : missing.c_str(), error.how.empty() ? "-" : error.how.c_str());
    std::printf("%s\n", error.what());
    return 3;
  }
}
