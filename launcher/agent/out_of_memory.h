// Was a process that died of SIGKILL killed by the kernel for memory? Evidence from the kernel log where it
// may be read, else from the OOM counters of the process's memory cgroup (v2 memory.events, v1
// memory.oom_control; there a zombie may be counted to the root group, so the counter alone proves nothing).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "launcher/base/fd.h"

namespace trainrun::agent {

// Whom a record of the kernel log (/dev/kmsg) names as killed for memory, and its words about that, one line
// of at most 200 bytes.
std::optional<std::pair<pid_t, std::string>> victim_in(std::string_view record);
// The kills that a file of a memory cgroup counts.
std::optional<std::uint64_t> kills_in(std::string_view counters);

class OutOfMemory {
 public:
  // Remembers the counter of the cgroup in which workers start, and where the log ends now, so that old kills
  // are not blamed on new deaths.
  void remember();
  // To be asked while `pid` is a zombie (/proc still tells its cgroup). Empty: no evidence.
  std::string evidence(pid_t pid);

 private:
  void read_log();

  std::map<std::string, std::uint64_t> counters_;  // by the file that holds the counter
  Fd log_;
  std::map<pid_t, std::string> victims_;  // what the log said of each
};

}  // namespace trainrun::agent
