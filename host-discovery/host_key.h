// When two mentions mean the same machine, and when the same host.
#pragma once

#include <string>
#include <string_view>

#include "host-discovery/host.h"

namespace trainrun::hosts {

// Names of one machine have one key: case and a final dot do not matter.
std::string name_key(std::string_view name);

// What a host is known by from one look to the next: name, user and port. Its slots and its private key may
// change, and it stays the same host.
std::string host_key(const Host& host);

}  // namespace trainrun::hosts
