// Who listens on a port of this host, for the error that says it is taken.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trainrun::agent {

// "python3, pid 1234"; empty when it is not ours to see. Looks at every process: for errors only.
std::string port_holder(std::uint16_t port);

// The inode of the socket that listens on `port`, or 0. `table`: the text of /proc/net/tcp or tcp6. Pure.
std::uint64_t listening_inode(std::string_view table, std::uint16_t port);

}  // namespace trainrun::agent
