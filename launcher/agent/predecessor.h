// What earlier agents have left on this host. One that was killed together with its watcher leaves what its
// workers have started and the job's private directory. One that the launcher of an elastic job gave up while
// it was out of reach may still be there, and its workers in their grace. The next agent of the job on the
// host finds the directory and ends what belongs to it, before any worker of the next generation starts; the
// agents of later jobs, and on its own host the launcher, do so where nobody of the job lives who would.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "launcher/base/fd.h"
#include "launcher/base/id.h"

namespace trainrun::agent {

// Says, by a lock on a file in it, that the directory's agent lives, for as long as the descriptor is open,
// and serves `host` of the job. An empty one when the file system has no locks: then nobody will clear up
// after us.
Fd claim_directory(const std::string& path, HostIndex host);

struct Cleared {
  std::size_t directories = 0, processes = 0;
};
// Of the directories BASE/trainrun.JOB_ID.* of our user, takes those whose agent is dead, or was there for
// the same `host`: then it is killed. One for another host of the job is a neighbour: this machine may have
// two names. Its watcher may be stopped too: it is made to go on, ends what it watched over, and is killed
// where it does not go. Kills the processes that have the directory's key file in their environment, waits
// for their end (a second at most, and only where there are some), and removes the directory. One that
// another machine, an earlier boot or another container made is left alone: BASE may be shared, and there a
// lock proves nothing.
Cleared clear_after_predecessors(const std::string& base, std::string_view job_id, HostIndex host);

// The same of what agents have left that are dead, as are their watchers: those of other jobs of our user ...
Cleared clear_after_dead_jobs(const std::string& base, std::string_view own_job_id);
// ... or of this one.
Cleared clear_after_dead_agents(const std::string& base, std::string_view job_id);

}  // namespace trainrun::agent
