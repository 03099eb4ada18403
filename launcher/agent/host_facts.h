// What this host is: cores, quota, GPUs, addresses. Reads /proc, /sys and the affinity mask only; no hwloc,
// no NVML.
#pragma once

#include <string>

#include "launcher/wire/facts.h"
#include "launcher/wire/messages.h"

namespace trainrun::agent {

// What costs more than a microsecond is read only when it is wanted.
struct Wanted {
  bool topology = false;   // sockets and NUMA domains: some files of /sys a CPU
  bool addresses = false;  // of the interfaces: some questions to the kernel
};
wire::HostFacts read_host_facts(Wanted wanted);

// TMPDIR as our login has it; may be empty.
std::string own_tmpdir();

// HOME, USER, LOGNAME and SHELL as our login has them, each only if it has it: the launcher's own would be
// wrong on another host, and programs cannot do without.
wire::EnvPairs own_login();

}  // namespace trainrun::agent
