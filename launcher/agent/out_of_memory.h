// Was a process that died of SIGKILL killed by the kernel for memory? The OOM counters of the process's
// memory cgroup (v2 memory.events, v1 memory.oom_control) say whether anything was; the kernel log, where it
// may be read, says who.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>

namespace trainrun::agent {

class OutOfMemory {
 public:
  // Remembers the counter of the cgroup in which workers start, so that old kills are not blamed on new
  // deaths.
  void remember_counters();
  // To be asked while `pid` is a zombie (/proc still tells its cgroup). Empty: no evidence.
  std::string evidence(pid_t pid);

 private:
  std::map<std::string, std::uint64_t> at_start_, known_;  // by the file that holds the counter
};

}  // namespace trainrun::agent
