// Was a process that died of SIGKILL killed by the kernel for memory? Where the kernel log may be read it
// says whom the kernel killed, and nothing else counts. Else there are the OOM counters of the process's
// memory cgroup, or of the one in which workers start (v2 memory.events, v1 memory.oom_control): they say
// that the kernel has just killed somebody there, perhaps a process of another job.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/base/fd.h"
#include "launcher/base/time.h"

namespace trainrun::agent {

// Whom a record of the kernel log (/dev/kmsg) names as killed for memory, and its words about that, one line
// of at most 200 bytes.
std::optional<std::pair<pid_t, std::string>> victim_in(std::string_view record);
// The kills that a file of a memory cgroup counts.
std::optional<std::uint64_t> kills_in(std::string_view counters);

// The files that may count the kills of a process's memory cgroup, from its /proc/PID/cgroup and our own
// mountinfo: in a container, or where v1 and v2 are used together, hierarchies are mounted elsewhere and show
// only a part.
std::vector<std::string> counter_files(std::string_view cgroups, std::string_view mountinfo);
// The same where hierarchies are mounted as usual, which is so nearly everywhere: mountinfo is long, and
// costs more to read than all else that a start on a host looks at.
std::vector<std::string> usual_counter_files(std::string_view cgroups);

// Whether a program that ran another says by its own exit code that SIGKILL ended it: a shell says 128 and
// the signal, Python's sys.exit(subprocess.run(...).returncode) 256 less it.
bool tells_of_sigkill(int exit_code);

class OutOfMemory {
 public:
  // Where the kernel tells it; tests have places of their own.
  explicit OutOfMemory(std::string proc = "/proc", std::string log = "/dev/kmsg");
  // Remembers the counter of the cgroup in which workers start, and where the log ends now, so that old kills
  // are not blamed on new deaths.
  void remember(Instant now);
  // To be called every few seconds, for the same reason.
  void look(Instant now);
  // To be asked while `pid` is a zombie (/proc still tells its cgroup). Empty: no evidence. It begins with
  // wire::kernel_named_it if it is certain.
  std::string evidence(pid_t pid, Instant now);
  // The same of a zombie that says by its exit code that a process which it ran was killed: a kill of now may
  // have been that one. Never certain.
  std::string evidence_within(pid_t pid, Instant now);

 private:
  struct Kills {
    std::uint64_t all = 0, latest = 0;
    Instant at{};  // when the latest were noticed
  };
  struct Victim {
    std::string words;
    Instant at{};
  };
  struct Counter {
    std::string file;
    std::uint64_t kills = 0;
  };
  [[nodiscard]] std::optional<Counter> counter_of(const std::string& process) const;
  void count(Kills& known, std::uint64_t kills, Instant now) const;
  void read_log(Instant now);
  std::string rise(const std::string& process, Instant now);
  std::string risen(pid_t pid, Instant now);

  std::string proc_, log_path_;
  std::map<std::string, Kills> counters_;  // by the file that holds the counter
  Fd log_;
  Instant log_torn_{};               // some of it was overwritten before it was read
  std::map<pid_t, Victim> victims_;  // what the log said of each
};

}  // namespace trainrun::agent
