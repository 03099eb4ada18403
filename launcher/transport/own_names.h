// What the system says of this machine's names.
#pragma once

#include "host-discovery/host.h"

namespace trainrun::transport {

// hosts::ThisMachine of this process' system, which is read once.
bool is_this_machine(const Host& host);

}  // namespace trainrun::transport
