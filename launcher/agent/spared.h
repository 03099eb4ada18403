// Who of what is left is not told to end, yet.
#pragma once

#include <sys/types.h>

#include <functional>
#include <set>
#include <vector>

#include "launcher/agent/process_tree.h"

namespace trainrun::agent {

// Of `left`: who was asked to end before, and what that runs; and filters, which end when nobody writes to
// them any more. Nobody is spared if that would be everybody though nothing was asked to end.
std::set<pid_t> spared(const ProcessTree& tree, const std::vector<pid_t>& left,
                       const std::function<bool(pid_t)>& was_asked_to_end);

}  // namespace trainrun::agent
