#include "launcher/core/host_parts.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace trainrun::core {
namespace {

std::uint32_t number_of(const wire::CpuFact& cpu, HostPart part) {
  switch (part) {
    case HostPart::host:
      return 0;
    case HostPart::socket:
      return cpu.socket;
    case HostPart::numa:
      return cpu.numa;
    case HostPart::l3cache:
      return cpu.l3;
    case HostPart::core:
      return cpu.core;
  }
  return 0;
}

}  // namespace

std::vector<Part> parts_of(const CpuFacts& cpus, HostPart part) {
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>, Core> cores;
  for (const auto& cpu : cpus) {
    const auto number = number_of(cpu, part);
    // Cores by themselves are in the order of all.
    auto& core = cores[{part == HostPart::core ? 0 : number, cpu.socket, cpu.numa, cpu.core}];
    core.part = number;
    core.cpus.push_back(cpu.cpu);
  }
  std::vector<Part> parts;
  for (auto& [key, core] : cores) {
    if (parts.empty() || parts.back().front().part != core.part) parts.emplace_back();
    parts.back().push_back(std::move(core));
  }
  return parts;
}

std::vector<std::uint32_t> cpus_in(const Part& part) {
  std::vector<std::uint32_t> cpus;
  for (const auto& core : part) cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
  std::sort(cpus.begin(), cpus.end());
  return cpus;
}

std::string_view name_of(HostPart part) {
  switch (part) {
    case HostPart::host:
      return "host";
    case HostPart::socket:
      return "socket";
    case HostPart::numa:
      return "NUMA node";
    case HostPart::l3cache:
      return "L3 cache";
    case HostPart::core:
      return "core";
  }
  return "";
}

}  // namespace trainrun::core
