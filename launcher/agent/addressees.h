// To which processes of a rank a signal goes that asks it to do something (TERM, USR1, ...).
#pragma once

#include <sys/types.h>

#include <vector>

#include "launcher/agent/process_tree.h"

namespace trainrun::agent {

// sh, bash and their kin, by the name of the executable.
bool is_shell(pid_t pid);

// The rank's own process, and what a shell there runs, since a shell hands no signal on. Nobody below a
// program: the workers of a data loader would die of TERM at once, and with them the step that the rank wants
// to finish before it saves. They are ended with what else is left when the rank is gone.
std::vector<pid_t> addressees(const ProcessTree& tree, pid_t leader);

}  // namespace trainrun::agent
