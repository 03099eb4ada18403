// What a host's cores are parts of: sockets, NUMA nodes, caches. Ranks are counted by them and bound to them.
// Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "launcher/core/job_spec.h"
#include "launcher/wire/facts.h"

namespace trainrun::core {

using CpuFacts = std::vector<wire::CpuFact>;

struct Core {
  std::uint32_t part = 0;  // the kernel's number of what it is a part of
  std::vector<std::uint32_t> cpus{};
};
using Part = std::vector<Core>;

// The cores of each socket, NUMA node, third-level cache, or each by itself, or all of the host, in the
// kernel's order of sockets, NUMA nodes and cores. None where the host does not tell its CPUs.
std::vector<Part> parts_of(const CpuFacts& cpus, HostPart part);

// The CPUs of one part, ascending.
std::vector<std::uint32_t> cpus_in(const Part& part);

// "socket", "NUMA node", "L3 cache", "core", "host".
std::string_view name_of(HostPart part);

}  // namespace trainrun::core
