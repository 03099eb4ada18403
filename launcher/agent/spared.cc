#include "launcher/agent/spared.h"

#include <signal.h>

#include "launcher/agent/filter.h"
#include "launcher/agent/process_stat.h"

namespace trainrun::agent {

std::set<pid_t> spared(const ProcessTree& tree, const std::vector<pid_t>& left,
                       const std::function<bool(pid_t)>& was_asked_to_end) {
  std::set<pid_t> spare;
  for (const auto pid : left) {
    if (!was_asked_to_end(pid)) continue;
    spare.insert(pid);
    for (const auto below : tree.descendants(pid)) spare.insert(below);
  }
  const bool some_end = !spare.empty();
  const PipesWritten pipes(left);
  for (const auto pid : left) {
    if (!spare.contains(pid) && pipes.feed(pid) && !signal_sets(pid).has_own_way_with(SIGTERM))
      spare.insert(pid);
  }
  if (!some_end && spare.size() == left.size()) spare.clear();
  return spare;
}

}  // namespace trainrun::agent
