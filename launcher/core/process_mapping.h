// Which ranks are on which host, in the words of PMI's key PMI_process_mapping.
#pragma once

#include <string>

#include "launcher/core/placement.h"

namespace trainrun::core {

// "(vector,(0,2,4))": from host 0 on, 2 hosts with 4 ranks each, in the order of ranks. Hosts are numbered as
// they come first. Empty when it does not fit into a value of PMI-1: MPICH then exchanges names of hosts.
std::string process_mapping(const Placement& placement);

}  // namespace trainrun::core
