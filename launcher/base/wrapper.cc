#include "launcher/base/wrapper.h"

#include <algorithm>
#include <array>

namespace trainrun {

bool is_wrapper(std::string_view program) {
  constexpr std::array<std::string_view, 12> names{"nice",    "ionice",  "chrt",    "taskset",
                                                   "numactl", "timeout", "time",    "nohup",
                                                   "setsid",  "stdbuf",  "prlimit", "hwloc-bind"};
  return std::find(names.begin(), names.end(), program.substr(program.rfind('/') + 1)) != names.end();
}

}  // namespace trainrun
