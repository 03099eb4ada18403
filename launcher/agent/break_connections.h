// Ends connections of other processes, which live on: their next read or write fails, on both sides.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

namespace trainrun::agent {

// Of those that `processes` have with one of these addresses at either end, each 6 or 18 bytes as
// wire::BreakConnections has them. How many it were; none also where the kernel lets nobody have another's
// sockets: that takes pidfd_getfd (Linux 5.6), and the right to trace the process, which a process above it
// has unless a container or Yama forbids it.
std::size_t break_connections(const std::vector<std::string>& ends, const std::vector<pid_t>& processes);

}  // namespace trainrun::agent
