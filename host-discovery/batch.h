// The hosts of an allocation of PBS, LSF or Grid Engine, from the text that each keeps it in. Slots are what
// the batch system counts: a line or a number for each. Pure; errors say `where` and what was expected.
#pragma once

#include <string_view>
#include <vector>

#include "host-discovery/host.h"
#include "launcher/base/error.h"

namespace trainrun::hosts {

// $PBS_NODEFILE, $COBALT_NODEFILE and LSF's $LSB_DJOB_HOSTFILE: a host a line, named once for each slot, not
// always in a row. When every host stands there once, that is a list and no count (PBS without mpiprocs):
// slots are not given.
Result<std::vector<Host>> hosts_by_line(std::string_view content, std::string_view where);

// $LSB_HOSTS: "hostA hostA hostB", in one line, else as above.
Result<std::vector<Host>> hosts_by_word(std::string_view text, std::string_view where);

// $LSB_MCPU_HOSTS: "hostA 4 hostB 8".
Result<std::vector<Host>> hosts_by_pair(std::string_view text, std::string_view where);

// $PE_HOSTFILE: "node1 8 all.q@node1 UNDEFINED" a line; a host may have one for each of its queues.
Result<std::vector<Host>> hosts_of_grid_engine(std::string_view content, std::string_view where);

}  // namespace trainrun::hosts
