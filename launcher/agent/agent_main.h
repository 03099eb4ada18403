// The ways in which an agent comes to life: as a program of its own, at the end of an ssh channel or on the
// launcher's own host, and as a fork of the launcher there.
#pragma once

#include <string>
#include <vector>

#include "launcher/base/fd.h"

namespace trainrun::agent {

// `agent --greet NONCE SIZE`: prints "NONCE ready\n" on stdout and speaks frames on stdin and stdout from
// there on; not if its own file does not have SIZE bytes. `--version` prints version and
// protocol.
// `agent --link FD SIZE LIMIT`: on the launcher's own host, where stdin is the launcher's and stays; frames
// go through FD. LIMIT: the soft limit on open files that the launcher was given, which its workers get back.
// Gives the exit code of the process.
int agent_main(const std::vector<std::string>& words);

// For a process with one thread only. Forks watcher and agent; `link` becomes the agent's end of the Link.
// Gives the watcher's pid to the caller, which goes on.
Result<int> fork_agent(Fd link);

}  // namespace trainrun::agent
