#include "launcher/core/binding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include "launcher/base/strings.h"
#include "launcher/core/env_var.h"
#include "launcher/core/host_parts.h"

namespace trainrun::core {
namespace {

using Cpus = std::vector<std::uint32_t>;

// What ranks are spread over or bound to.
HostPart part_of(BindTo bind_to) {
  switch (bind_to) {
    case BindTo::socket:
      return HostPart::socket;
    case BindTo::l3cache:
      return HostPart::l3cache;
    case BindTo::none:
    case BindTo::core:
    case BindTo::numa:
    case BindTo::automatic:
      break;
  }
  return HostPart::numa;
}

tl::unexpected<Error> tells_no_cores() {
  return fail(Code::usage, "the host does not tell its cores, so ranks cannot be bound",
              "use --bind-to none");
}

// One rank to each domain in turn while it has room for `each` cores more: ranks a domain.
std::vector<std::size_t> spread(std::size_t ranks, std::size_t each, const std::vector<Part>& domains) {
  std::vector<std::size_t> shares(domains.size(), 0);
  for (bool any = true; ranks > 0 && any;) {
    any = false;
    for (std::size_t i = 0; i < domains.size() && ranks > 0; ++i) {
      if ((shares[i] + 1) * each > domains[i].size()) continue;
      ++shares[i];
      --ranks;
      any = true;
    }
  }
  return ranks == 0 ? shares : std::vector<std::size_t>{};
}

// The user's own choice of devices; `name` becomes the variable that holds it.
std::vector<std::string> own_gpu_list(const JobSpec& job, std::string_view& name) {
  for (const std::string_view candidate : {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"}) {
    const auto* list = find_variable(job.env, candidate);
    if (list == nullptr || list->empty()) continue;
    name = candidate;
    const auto devices = split(*list, ',');
    return {devices.begin(), devices.end()};
  }
  // What it lets through is numbered anew for the others.
  if (const auto* list = find_variable(job.env, "ROCR_VISIBLE_DEVICES"); list != nullptr && !list->empty()) {
    name = "ROCR_VISIBLE_DEVICES";
    std::vector<std::string> devices;
    for (std::size_t i = 0; i < split(*list, ',').size(); ++i) devices.push_back(std::to_string(i));
    return devices;
  }
  name = "the host";
  return {};
}

}  // namespace

BindTo binding_of(const JobSpec& job, const wire::HostFacts& facts, std::uint32_t local_size) {
  if (job.bind_to != BindTo::automatic) return job.bind_to;
  constexpr int few = 2;
  if (facts.cpus.empty() || local_size > usable_cores(facts)) return BindTo::none;
  return job.world_size() <= few ? BindTo::core : BindTo::socket;
}

std::string binding_words(const std::vector<std::uint32_t>& cpus, const wire::HostFacts& facts) {
  if (cpus.empty()) return "not bound";
  std::set<std::tuple<std::uint32_t, std::uint32_t>> all, own;
  for (const auto& cpu : facts.cpus) {
    all.emplace(cpu.socket, cpu.core);
    if (std::find(cpus.begin(), cpus.end(), cpu.cpu) != cpus.end()) own.emplace(cpu.socket, cpu.core);
  }
  return fmt::format("CPU{} {}: {} of {}", cpus.size() == 1 ? "" : "s", fmt::join(cpus, ","), own.size(),
                     counted(static_cast<int>(all.size()), "core"));
}

namespace {

// So many cores of its own for each of a host's ranks, out of `domains`.
Result<Cpus> cores_of_its_own(const JobSpec& job, BindTo bind_to, std::vector<Part> domains,
                              std::uint32_t local_rank, std::uint32_t local_size) {
  const auto each = static_cast<std::size_t>(std::max(job.cpus_per_rank, 1));
  std::size_t cores = 0;
  for (const auto& domain : domains) cores += domain.size();
  if (each * local_size > cores) {
    return fail(Code::usage,
                fmt::format("{} with {} each need {}, and {} may be used", counted(local_size, "rank"),
                            counted(static_cast<std::int64_t>(each), "core"),
                            counted(static_cast<std::int64_t>(each * local_size), "core"), cores),
                "lower --cpus-per-rank, give the host fewer slots, or use --bind-to none");
  }
  auto shares = spread(local_size, each, domains);
  if (shares.empty() && bind_to != BindTo::core) {
    std::vector<std::size_t> sizes;
    for (const auto& domain : domains) sizes.push_back(domain.size());
    return fail(Code::usage,
                fmt::format("{} with {} each do not fit into {}s of {} cores", counted(local_size, "rank"),
                            counted(static_cast<std::int64_t>(each), "core"), name_of(part_of(bind_to)),
                            fmt::join(sizes, ", ")),
                "lower --cpus-per-rank, or use --bind-to core");
  }
  if (shares.empty()) {  // enough cores, but some rank has to straddle two NUMA nodes
    for (std::size_t i = 1; i < domains.size(); ++i) {
      domains[0].insert(domains[0].end(), domains[i].begin(), domains[i].end());
    }
    domains.resize(1);
    shares = {local_size};
  }
  std::size_t domain = 0, index = local_rank;
  while (index >= shares[domain]) index -= shares[domain++];
  const auto first = domains[domain].begin() + static_cast<std::ptrdiff_t>(index * each);
  return cpus_in(Part(first, first + static_cast<std::ptrdiff_t>(each)));
}

// Of the ranks that share `inside`, a part of the host or all of it.
Result<Cpus> cpus_within(const JobSpec& job, const wire::HostFacts& facts, const wire::HostFacts& inside,
                         std::uint32_t local_rank, std::uint32_t local_size) {
  const BindTo bind_to = binding_of(job, inside, local_size);
  if (bind_to == BindTo::none) return Cpus{};
  if (inside.cpus.empty()) return tells_no_cores();
  const auto part = part_of(bind_to);
  if (bind_to == BindTo::core || job.cpus_per_rank > 0)
    return cores_of_its_own(job, bind_to, parts_of(inside.cpus, part), local_rank, local_size);
  auto domains = parts_of(facts.cpus, part);  // one may be larger than what ranks were counted by
  std::erase_if(domains, [&](const Part& domain) {
    const auto cpus = cpus_in(domain);
    return std::none_of(inside.cpus.begin(), inside.cpus.end(), [&](const wire::CpuFact& cpu) {
      return std::binary_search(cpus.begin(), cpus.end(), cpu.cpu);
    });
  });
  return cpus_in(domains[std::size_t{local_rank} * domains.size() / local_size]);
}

// --map-by ppr:N:PART: the host's ranks fill its parts one after the other.
Result<Cpus> cpus_by_part(const JobSpec& job, const wire::HostFacts& facts, std::uint32_t local_rank,
                          std::uint32_t local_size) {
  const auto& [part, ranks, expected] = job.per_part;
  const auto parts = parts_of(facts.cpus, part);
  const auto each = static_cast<std::uint32_t>(std::max(ranks, 1));
  if (parts.size() != static_cast<std::size_t>(expected)) {
    return fail(Code::usage,
                fmt::format("it has {}, and ranks were counted for hosts with {}, as the launcher's own has",
                            counted(static_cast<std::int64_t>(parts.size()), name_of(part)), expected),
                fmt::format("write --map-by ppr:{}:node for the ranks that such a host is to get",
                            std::max<std::size_t>(each * parts.size(), 1)));
  }
  const auto index = local_rank / each;
  if (index >= parts.size())
    return fail(Code::usage, fmt::format("{} a {} are fewer than {} on a host with {}", each, name_of(part),
                                         counted(local_size, "rank"), expected));
  auto inside = facts;
  const auto own = cpus_in(parts[index]);
  std::erase_if(inside.cpus, [&](const wire::CpuFact& cpu) {
    return !std::binary_search(own.begin(), own.end(), cpu.cpu);
  });
  return cpus_within(job, facts, inside, local_rank % each, std::min(each, local_size - index * each));
}

// What a line of --rankfile names.
Result<Cpus> cpus_named(const std::vector<CoreRange>& ranges, const wire::HostFacts& facts) {
  if (facts.cpus.empty()) return tells_no_cores();
  Cpus cpus;
  for (const auto& [socket, first, last] : ranges) {
    const auto parts = parts_of(facts.cpus, socket < 0 ? HostPart::host : HostPart::socket);
    const auto index = static_cast<std::size_t>(std::max(socket, 0));
    if (index >= parts.size())
      return fail(Code::usage,
                  fmt::format("it has no socket {}: {}", socket,
                              parts.size() == 1 ? "there is socket 0 only"
                                                : fmt::format("there are 0 to {}", parts.size() - 1)),
                  "sockets of --rankfile are counted from 0");
    const auto& cores = parts[index];
    const bool all = last == std::numeric_limits<std::uint32_t>::max();
    if (first >= cores.size() || (!all && last >= cores.size()))
      return fail(Code::usage,
                  fmt::format("{} has no core {}: {} may be used",
                              socket < 0 ? "it" : fmt::format("socket {}", socket), all ? first : last,
                              counted(static_cast<std::int64_t>(cores.size()), "core")),
                  "cores of --rankfile are counted from 0, as lstopo --logical does");
    const auto end = all ? cores.size() : std::size_t{last} + 1;
    for (auto core = std::size_t{first}; core < end; ++core)
      cpus.insert(cpus.end(), cores[core].cpus.begin(), cores[core].cpus.end());
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

}  // namespace

Result<std::vector<std::uint32_t>> cpus_for(const JobSpec& job, const wire::HostFacts& facts,
                                            std::uint32_t local_rank, std::uint32_t local_size) {
  if (job.per_part.part != HostPart::host) return cpus_by_part(job, facts, local_rank, local_size);
  return cpus_within(job, facts, facts, local_rank, local_size);
}

Result<std::vector<std::uint32_t>> cpus_of(const JobSpec& job, const wire::HostFacts& facts, const Seat& seat,
                                           std::uint32_t slots) {
  if (seat.rank.value < job.rank_file.size() && !job.rank_file[seat.rank.value].cores.empty())
    return cpus_named(job.rank_file[seat.rank.value].cores, facts);
  return cpus_for(job, facts, seat.slot, slots);
}

bool needs_topology(const JobSpec& job) {
  return job.bind_to != BindTo::none || job.report_bindings || job.per_part.part != HostPart::host ||
         !job.rank_file.empty();
}

std::uint32_t usable_cores(const wire::HostFacts& facts) {
  std::vector<std::uint32_t> cores;
  for (const auto& cpu : facts.cpus) cores.push_back(cpu.core);
  std::sort(cores.begin(), cores.end());
  auto count =
      static_cast<std::uint32_t>(std::distance(cores.begin(), std::unique(cores.begin(), cores.end())));
  if (facts.quota_millicores > 0) {
    count = std::min(count, facts.quota_millicores / 1000 + (facts.quota_millicores % 1000 > 0 ? 1 : 0));
  }
  return std::max(count, 1U);
}

std::string visible_gpus(const JobSpec& job, std::uint32_t local_rank) {
  if (job.gpus_per_rank <= 0) return {};
  const auto each = static_cast<std::size_t>(job.gpus_per_rank);
  std::string_view source;
  const auto own = own_gpu_list(job, source);
  std::vector<std::string> gpus;
  for (auto i = local_rank * each; i < (local_rank + 1) * each; ++i) {
    if (own.empty()) {
      gpus.push_back(std::to_string(i));
    } else if (i < own.size()) {
      gpus.push_back(own[i]);
    }
  }
  return fmt::format("{}", fmt::join(gpus, ","));
}

Result<void> gpus_suffice(const JobSpec& job, const wire::HostFacts& facts, std::uint32_t local_size) {
  if (job.gpus_per_rank <= 0) return {};
  const auto needed = std::uint64_t{local_size} * static_cast<std::uint64_t>(job.gpus_per_rank);
  std::string_view source;
  const auto own = own_gpu_list(job, source);
  const auto have = own.empty() ? std::uint64_t{facts.gpus} : own.size();
  if (needed <= have) return {};
  return fail(
      Code::usage,
      fmt::format("{} with {} each need {}, and {} has {}", counted(local_size, "rank"),
                  counted(job.gpus_per_rank, "GPU"), counted(static_cast<std::int64_t>(needed), "GPU"),
                  source, have),
      job.virtual_local_rank && job.gpus_per_rank == 1
          ? "leave out --virtual-local-rank, which gives each rank a GPU, or give the host fewer slots"
          : "lower --gpus-per-rank, or give the host fewer slots");
}

Result<void> processes_suffice(const wire::HostFacts& facts, std::uint32_t ranks) {
  if (facts.most_processes == 0 || ranks <= facts.most_processes) return {};
  return fail(Code::try_again,
              fmt::format("{} ranks are as many processes, and {} allows {}", ranks, facts.processes_limit,
                          facts.most_processes),
              "start fewer ranks there, or raise that limit");
}

Result<void> slots_suit(const JobSpec& job, const wire::HostFacts& facts, std::uint32_t slots) {
  if (const auto processes = processes_suffice(facts, slots); !processes) return processes;
  if (const auto gpus = gpus_suffice(job, facts, slots); !gpus) return gpus;
  if (!job.rank_file.empty()) return {};  // it says itself which ranks have which cores
  for (std::uint32_t slot = 0; slot < slots; ++slot)
    if (const auto cpus = cpus_for(job, facts, slot, slots); !cpus) return tl::unexpected(cpus.error());
  return {};
}

}  // namespace trainrun::core
