// What /proc tells of one process.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/base/id.h"

namespace trainrun::agent {

struct ProcessStat {
  char state = '?';  // R, S, D, T, t, Z...
  pid_t parent = 0, session = 0;
  std::uint64_t cpu_ticks = 0;  // its own, and those of children that it has waited for
  std::uint64_t threads = 0;
  std::uint64_t started = 0;  // ticks since boot; with the pid it names one process, also after its end

  // A zombie waits for its parent alone; but one whose other threads go on is no corpse yet.
  [[nodiscard]] bool lives() const { return (state != 'Z' && state != 'X') || threads > 1; }
  [[nodiscard]] bool stopped() const { return state == 'T' || state == 't'; }
};

// Nothing if there is no such process.
std::optional<ProcessStat> process_stat(pid_t pid);

// The value of a variable in the environment that `pid` was started with. Nothing if it has none, or if it
// may not be read, or if the program wrote over it (as those do that change their title).
std::optional<std::string> environment_value(pid_t pid, std::string_view name);

// The worker named by TRAINRUN_WORKER in the environment of `pid`.
std::optional<WorkerId> worker_mark(pid_t pid);

}  // namespace trainrun::agent
