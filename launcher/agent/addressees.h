// To which processes of a rank a signal goes that asks it to do something (TERM, USR1, ...).
#pragma once

#include <sys/types.h>

#include <vector>

#include "launcher/agent/process_tree.h"

namespace trainrun::agent {

// sh, bash and their kin, by the name of the executable.
bool is_shell(pid_t pid);

// The rank's own program, and where that is a shell, what the shell runs, since it hands no signal on. Nobody
// below a program: the workers of a data loader would die of TERM at once, and with them the step that the
// rank wants to finish before it saves. They are ended with what else is left when the rank is gone.
//
// A shell is left out when something below it has its own way with the signal, and so may be saving: a shell
// that dies of TERM takes `| tee` away from a program that still prints, and one that goes on ends by itself
// when its program has. With nothing of that kind below it, it is meant as well, or it would begin the next
// command of its script.
//
// A shell with a trap for the signal is always meant. What runs in its foreground is too, or the trap would
// wait for it; what it put into the background is the trap's business.
//
// A filter, which reads what another process of the same shell writes, ends when that does; it is meant only
// if it has its own way with the signal.
std::vector<pid_t> addressees(const ProcessTree& tree, pid_t leader, int number);

}  // namespace trainrun::agent
