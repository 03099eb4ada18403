#include "tests/bench/scale/cost.h"

#include <sys/resource.h>

#include <cstdlib>
#include <ctime>
#include <new>

namespace {

std::uint64_t operations = 0;
constexpr std::size_t bytes_an_operation = 16;

}  // namespace

extern "C" void __sanitizer_cov_trace_pc();
extern "C" void __sanitizer_cov_trace_pc() { ++operations; }

void* operator new(std::size_t size) {
  operations += 1 + size / bytes_an_operation;
  if (auto* const memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace trainrun::bench {

Cost cost_so_far() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return {static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9, operations};
}

double peak_mib() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

}  // namespace trainrun::bench
