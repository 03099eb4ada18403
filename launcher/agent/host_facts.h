// What this host is: cores, quota, GPUs, addresses. Reads /proc, /sys and the affinity mask only; no hwloc,
// no NVML.
#pragma once

#include <string>

#include "launcher/wire/facts.h"

namespace trainrun::agent {

// What costs more than a microsecond is read only when it is wanted.
struct Wanted {
  bool topology = false;   // sockets and NUMA domains: some files of /sys a CPU
  bool addresses = false;  // of the interfaces: some questions to the kernel
};
wire::HostFacts read_host_facts(Wanted wanted);

// TMPDIR as our login has it; may be empty.
std::string own_tmpdir();

}  // namespace trainrun::agent
