// What an agent leaves that was killed together with its watcher: workers die by their parent-death signal,
// but daemons of theirs and the job's private directory stay. The next agent of the same job on the host, if
// there is one, finds the directory and ends what belongs to it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "launcher/base/fd.h"

namespace trainrun::agent {

// Says, by a lock on a file in it, that the directory's agent lives, for as long as the descriptor is open.
// An empty one when the file system has no locks: then nobody will clear up after us.
Fd claim_directory(const std::string& path);

struct Cleared {
  std::size_t directories = 0, processes = 0;
};
// Of the directories BASE/trainrun.JOB_ID.* of our user, takes those whose agent is dead: kills the processes
// that have the directory's key file in their environment, waits for their end (a second at most, and only
// where there are some), and removes the directory. One that another machine or an earlier boot made is left
// alone: BASE may be shared, and there a lock proves nothing.
Cleared clear_after_predecessors(const std::string& base, std::string_view job_id);

}  // namespace trainrun::agent
