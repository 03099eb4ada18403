// The same name: when two mentions of a host in lists, commands and answers mean one host. (Whether it is
// this machine: this_machine.h. Whether two hosts turned out to be one machine: machines.h.)
#pragma once

#include <string>
#include <string_view>

#include "host-discovery/host.h"

namespace trainrun::hosts {

// Names of one host have one key: case, a final dot and the spelling of an address do not matter.
std::string name_key(std::string_view name);

// What a host is known by from one look to the next: name, user and port. Its slots and its private key may
// change, and it stays the same host.
std::string host_key(const Host& host);

}  // namespace trainrun::hosts
