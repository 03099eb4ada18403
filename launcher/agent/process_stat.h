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
  bool exiting = false;         // it is past its last instruction: the kernel closes its files, or has
  std::uint64_t cpu_ticks = 0;  // its own, and those of children that it has waited for
  std::uint64_t threads = 0;
  std::uint64_t started = 0;  // ticks since boot; with the pid it names one process, also after its end

  // A zombie waits for its parent alone; but one whose other threads go on is no corpse yet.
  [[nodiscard]] bool lives() const { return (state != 'Z' && state != 'X') || threads > 1; }
  [[nodiscard]] bool stopped() const { return state == 'T' || state == 't'; }
};

// Of the text of /proc/PID/stat, in which the program chose its own name. Nothing if it is none.
std::optional<ProcessStat> parse_stat(std::string_view text);
// Nothing if there is no such process.
std::optional<ProcessStat> process_stat(pid_t pid);

// What a process does about signals, a bit for each, as /proc/PID/status has it.
struct SignalSets {
  std::uint64_t blocked = 0, ignored = 0, caught = 0;

  static bool has(std::uint64_t set, int number) { return ((set >> (number - 1)) & 1) != 0; }
  // It does not simply die of it, or does not die at once.
  [[nodiscard]] bool has_own_way_with(int number) const { return has(blocked | ignored | caught, number); }
};

// Of the text of /proc/PID/status; what is not there is empty.
SignalSets parse_signal_sets(std::string_view text);
SignalSets signal_sets(pid_t pid);

// The value of a variable in an environment as /proc/PID/environ has it.
std::optional<std::string_view> value_in(std::string_view environment, std::string_view name);
// ... in the one that `pid` was started with. Nothing if it has none, or if it may not be read, or if the
// program wrote over it (as those do that change their title).
std::optional<std::string> environment_value(pid_t pid, std::string_view name);

// The number of TRAINRUN_WORKER in an environment.
std::optional<WorkerId> mark_in(std::string_view environment);
// ... in the one that `pid` was started with.
std::optional<WorkerId> worker_mark(pid_t pid);

}  // namespace trainrun::agent
