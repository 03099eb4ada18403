// Processes that were asked to end, each of them once: a second SIGTERM would interrupt what the first one
// made it begin, as the writing of a checkpoint.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>

namespace trainrun::agent {

class AskedToEnd {
 public:
  // False if this very process is noted already, or is gone.
  bool note(pid_t pid);
  [[nodiscard]] bool contains(pid_t pid) const;
  [[nodiscard]] bool empty() const { return started_.empty(); }
  // Forgets those that have ended.
  bool any_lives();

 private:
  std::map<pid_t, std::uint64_t> started_;  // when: a pid alone may come again
};

}  // namespace trainrun::agent
