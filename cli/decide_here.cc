#include "cli/decide_here.h"

#include <fmt/format.h>

#include <optional>

#include "launcher/agent/host_facts.h"
#include "launcher/core/addresses.h"
#include "launcher/core/binding.h"
#include "launcher/core/replan.h"
#include "launcher/output/log_files.h"

namespace trainrun::cli {

namespace {

core::Seat seat_of(std::uint32_t slot) {
  core::Seat seat;
  seat.slot = slot;
  return seat;
}

Result<void> suits(const JobSpec& job, const core::Placement& placement, HostIndex host,
                   const wire::HostFacts& facts) {
  if (const auto address = core::address_of(host, {{host, &facts}}, job);
      !address && !job.network_interface.empty())
    return tl::unexpected(address.error());
  const Host& machine = job.hosts.hosts[host.value];
  const auto check = [&](const core::Seat& seat, std::uint32_t ranks) -> Result<void> {
    auto good = core::gpus_suffice(job, facts, ranks);
    if (const auto cpus = core::cpus_of(job, facts, seat, ranks); good && !cpus)
      good = tl::unexpected(cpus.error());
    if (!good) good.error().message = fmt::format("{}: {}", machine.name, good.error().message);
    return good;
  };
  if (job.elastic.enabled()) {  // any of its slots may come to hold a rank
    const auto slots = static_cast<std::uint32_t>(core::slots_of(job, machine));
    for (std::uint32_t slot = 0; slot < slots; ++slot) {
      if (auto good = check(seat_of(slot), slots); !good) return good;
    }
    return {};
  }
  for (const auto& seat : placement.seats) {
    if (seat.host != host) continue;
    if (auto good = check(seat, seat.local_size); !good) return good;
  }
  return {};
}

}  // namespace

Result<void> decide_here(const JobSpec& job, const core::Placement& placement,
                         const std::function<bool(const Host&)>& is_here) {
  std::optional<wire::HostFacts> facts;
  for (const auto& seat : placement.seats) {
    if (seat.local_rank != 0 || !is_here(job.hosts.hosts[seat.host.value])) continue;
    if (!facts) facts = agent::read_host_facts({.topology = true, .addresses = true});
    if (auto good = suits(job, placement, seat.host, *facts); !good) return good;
  }
  if (job.output_directory.empty()) return {};
  return output::may_make_log_files(job.output_directory);
}

}  // namespace trainrun::cli
