// What this host is: cores, quota, GPUs, addresses. Reads /proc, /sys and the affinity mask only; no hwloc,
// no NVML.
#pragma once

#include <string>

#include "launcher/wire/facts.h"

namespace trainrun::agent {

// `topology`: also sockets and NUMA domains of each CPU, which costs some files of /sys a CPU.
wire::HostFacts read_host_facts(bool topology);

// TMPDIR as our login has it, or /tmp.
std::string temporary_directory();

}  // namespace trainrun::agent
