// Was a process that died of SIGKILL killed by the kernel for memory? The host's counter of such kills says
// whether it can be; then the kernel's log tells, where it may be read, else the OOM counters of the
// process's memory cgroup (v2 memory.events, v1 memory.oom_control).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace trainrun::agent {

class OutOfMemory {
 public:
  // Remembers the counters of the host, and of the cgroup in which workers start: old kills are not blamed on
  // new deaths.
  void remember_counters();
  // To be asked while `pid` is a zombie (/proc still tells its cgroup). Empty: no evidence.
  std::string evidence(pid_t pid);

 private:
  std::map<std::string, std::uint64_t> counters_;  // by the file that holds it
  std::optional<std::uint64_t> kills_at_start_;    // on the whole host
};

}  // namespace trainrun::agent
