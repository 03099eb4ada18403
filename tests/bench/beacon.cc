// A worker that says that it has begun, and then waits for its end.
//
//   bench_beacon SOCKET
//
// The clock is read before anything else: what a launcher costs ends there.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tests/bench/hello.h"

namespace {

const char* value_of(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "0";
}

}  // namespace

int main(int argc, char** argv) {
  const auto begun = bench::now_ns();
  if (argc != 2) return 2;
  if (!bench::say_hello(argv[1], value_of("RANK"), value_of("TORCHELASTIC_RESTART_COUNT"), begun)) {
    std::perror(argv[1]);
    return 1;
  }
  for (;;) pause();
}
