// What ranks of MPI exchange, under random schedules: see exchange_schedule.h.
//     sim_exchange --schedules 20000 --seed 7         stops at the first that fails
//     sim_exchange --seed 7 --only 4711               tells what happens in that one
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/sim/exchange_dialects.h"

namespace trainrun::sim {
namespace {

std::uint64_t number(const char* text) { return std::strtoull(text, nullptr, 10); }

int run(int argc, char** argv) {
  std::uint64_t schedules = 1000, seed = 1, only = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--schedules") == 0) schedules = number(argv[i + 1]);
    if (std::strcmp(argv[i], "--seed") == 0) seed = number(argv[i + 1]);
    if (std::strcmp(argv[i], "--only") == 0) only = number(argv[i + 1]);
  }
  for (auto i = only == 0 ? 1 : only; i <= (only == 0 ? schedules : only); ++i) {
    const auto wrong =
        i % 2 == 0 ? Pmi(seed * 1'000'003 + i, only != 0).run() : Pmix(seed * 1'000'003 + i, only != 0).run();
    if (wrong.empty()) continue;
    std::printf("%s\nagain: sim_exchange --seed %llu --only %llu\n", wrong.c_str(),
                static_cast<unsigned long long>(seed), static_cast<unsigned long long>(i));
    return 1;
  }
  std::printf("%llu schedules\n", static_cast<unsigned long long>(only == 0 ? schedules : 1));
  return 0;
}

}  // namespace
}  // namespace trainrun::sim

int main(int argc, char** argv) { return trainrun::sim::run(argc, argv); }
