// What a stretch of work cost: CPU time of this process, and operations, which are the same on every machine.
// An operation is a basic block of the code under test (compiled with -fsanitize-coverage=trace-pc), or
// sixteen bytes asked of the heap, which stand for what is moved in one piece. Only bench_scale_counted has
// the former.
#pragma once

#include <cstdint>

namespace trainrun::bench {

struct Cost {
  double cpu_s = 0;
  std::uint64_t operations = 0;
};

Cost cost_so_far();
inline Cost operator-(const Cost& a, const Cost& b) {
  return {a.cpu_s - b.cpu_s, a.operations - b.operations};
}
inline Cost operator+(const Cost& a, const Cost& b) {
  return {a.cpu_s + b.cpu_s, a.operations + b.operations};
}
double peak_mib();  // of memory, of this process

}  // namespace trainrun::bench
