// Who reads what another process writes.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace trainrun::agent {

// The pipes that these processes write to, by their stdout and stderr.
class PipesWritten {
 public:
  explicit PipesWritten(const std::vector<pid_t>& writers);
  // The stdin of `pid` is such a pipe, and another process than itself writes there.
  [[nodiscard]] bool feed(pid_t pid) const;

 private:
  std::map<std::string, std::vector<pid_t>> writers_;
};

}  // namespace trainrun::agent
