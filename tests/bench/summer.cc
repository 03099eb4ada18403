// An elastic program on comm that only adds up, as fast as it can, and says when the first sum of
// each generation is there.
//
//   bench_summer SOCKET
#include <cstdio>
#include <exception>
#include <string>

#include "comm/trainrun_elastic.hpp"
#include "tests/bench/hello.h"

int main(int argc, char** argv) {
  namespace comm = trainrun::comm;
  if (argc != 2) return 2;
  double weight = 0;
  comm::elastic::State state;
  state.value("weight", weight);
  try {
    comm::elastic::run(state, [&](comm::World& world) {
      for (bool first = true;; first = false) {
        weight += world.group().allreduce(1.0);
        if (first && !bench::say_hello(argv[1], std::to_string(world.rank()).c_str(),
                                       std::to_string(world.generation()).c_str(), bench::now_ns()))
          return std::perror(argv[1]);
      }
    });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_summer: %s\n", error.what());
  }
  return 1;
}
