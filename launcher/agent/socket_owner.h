// Which process has a socket, by the inode that the kernel names it with.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/agent/supervisor.h"

namespace trainrun::agent {

// Each that a process has, by its descriptor there and its inode, until `taken` has seen enough. None also
// where its descriptors are not ours to see. `process`: a name in /proc.
void each_socket(const std::string& process,
                 const std::function<bool(int descriptor, std::uint64_t inode)>& taken);

// All that it has; empty also where its descriptors are not ours to see.
std::set<std::uint64_t> sockets_of(const std::string& process);

// Whether it has one of these. False also where its descriptors are not ours to see.
bool has_socket(const std::string& process, const std::set<std::uint64_t>& inodes);

// Whose process has it: a leader of a worker, or one that descends from one. Costs a look at each of their
// descriptors.
std::optional<WorkerId> worker_with_socket(std::uint64_t inode,
                                           const std::vector<Supervisor::Leader>& leaders);

}  // namespace trainrun::agent
