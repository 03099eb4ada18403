// At which address do others reach a server that listens on all of this host's?
#pragma once

#include <string>

namespace trainrun::rendezvous {

// The first address, in the system's order of interfaces, of one that is up and not the loopback; of the
// wanted family, or for IPv6, whose wildcard takes IPv4 as well, else an IPv4 one. Loopback when there is
// none. Numeric, without brackets.
std::string own_address(bool v6);

}  // namespace trainrun::rendezvous
