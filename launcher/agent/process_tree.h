// Which processes descend from one, and how to end them all. Linux /proc; bounded passes, no waiting.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace trainrun::agent {

// Children, grandchildren and so on of `root`, without `root`. A snapshot: a process that forks meanwhile may
// add more.
std::vector<pid_t> descendants(pid_t root);

// Sends `number` to every descendant of this process. With SIGKILL it looks again until no new ones appear,
// so that a process cannot get away by forking. Gives how many different processes were reached.
std::size_t signal_descendants(int number);

// This process has no child left, neither running nor to be reaped; since it is a subreaper, none of the job
// is.
bool no_children_left();

// Unlinks a directory and the files in it (directories in it too, to depth 8); other file systems are not
// entered.
void remove_tree(const std::string& path);

}  // namespace trainrun::agent
