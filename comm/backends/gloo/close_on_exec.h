// Gloo's descriptors are inherited by every program that the process starts. A helper that outlives its rank
// would keep the rank's connections, and the others could not see that it has died. Gloo gives its
// descriptors to nobody, so they are found among all by what they are.
#pragma once

#include <sys/socket.h>

#include <set>
#include <vector>

namespace trainrun::comm {

// The epoll sets that this process has now.
std::set<int> polls();
// Those that have come since are closed when a program is executed.
void close_new_polls_on_exec(const std::set<int>& before);
// So are connections of which one end is among these.
void close_connections_on_exec(const std::vector<sockaddr_storage>& ends);

}  // namespace trainrun::comm
