#include "launcher/core/binding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "launcher/base/strings.h"
#include "launcher/core/env_var.h"

namespace trainrun::core {
namespace {

struct Core {
  std::uint32_t domain = 0;  // NUMA node or socket
  std::vector<std::uint32_t> cpus;
};
using Domain = std::vector<Core>;

// Cores by NUMA node (or socket), in the kernel's order.
std::vector<Domain> domains_of(const wire::HostFacts& facts, bool by_socket) {
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, Core> cores;
  for (const auto& cpu : facts.cpus) {
    const auto domain = by_socket ? cpu.socket : cpu.numa;
    auto& core = cores[{domain, by_socket ? cpu.numa : cpu.socket, cpu.core}];
    core.domain = domain;
    core.cpus.push_back(cpu.cpu);
  }
  std::vector<Domain> domains;
  for (auto& [key, core] : cores) {
    if (domains.empty() || domains.back().front().domain != core.domain) domains.emplace_back();
    domains.back().push_back(std::move(core));
  }
  return domains;
}

std::vector<std::uint32_t> cpus_of(Domain::const_iterator first, Domain::const_iterator last) {
  std::vector<std::uint32_t> cpus;
  for (; first != last; ++first) cpus.insert(cpus.end(), first->cpus.begin(), first->cpus.end());
  std::sort(cpus.begin(), cpus.end());
  return cpus;
}

// One rank to each domain in turn while it has room for `each` cores more: ranks a domain.
std::vector<std::size_t> spread(std::size_t ranks, std::size_t each, const std::vector<Domain>& domains) {
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

Result<std::vector<std::uint32_t>> cpus_for(const JobSpec& job, const wire::HostFacts& facts,
                                            std::uint32_t local_rank, std::uint32_t local_size) {
  const BindTo bind_to = binding_of(job, facts, local_size);
  if (bind_to == BindTo::none) return std::vector<std::uint32_t>{};
  auto domains = domains_of(facts, bind_to == BindTo::socket);
  if (domains.empty()) {
    return fail(Code::usage, "the host does not tell its cores, so ranks cannot be bound",
                "use --bind-to none");
  }
  if (bind_to != BindTo::core && job.cpus_per_rank == 0) {
    const auto& whole = domains[std::size_t{local_rank} * domains.size() / local_size];
    return cpus_of(whole.begin(), whole.end());
  }
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
                            counted(static_cast<std::int64_t>(each), "core"),
                            bind_to == BindTo::numa ? "NUMA node" : "socket", fmt::join(sizes, ", ")),
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
  return cpus_of(first, first + static_cast<std::ptrdiff_t>(each));
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
  return fail(Code::usage,
              fmt::format("{} with {} each need {}, and {} has {}", counted(local_size, "rank"),
                          counted(job.gpus_per_rank, "GPU"),
                          counted(static_cast<std::int64_t>(needed), "GPU"), source, have),
              "lower --gpus-per-rank, or give the host fewer slots");
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
  for (std::uint32_t slot = 0; slot < slots; ++slot)
    if (const auto cpus = cpus_for(job, facts, slot, slots); !cpus) return tl::unexpected(cpus.error());
  return {};
}

}  // namespace trainrun::core
