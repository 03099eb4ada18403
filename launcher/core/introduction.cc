#include "launcher/core/introduction.h"

#include <algorithm>

#include "launcher/core/binding.h"

namespace trainrun::core {

wire::World introduction(const JobSpec& job, const Placement& placement, const StartWorker& one,
                         const wire::HostFacts& facts, std::uint32_t restarts, const std::string& mapping) {
  const auto& its = placement.seats[one.rank.value];
  const auto first_slot = one.share.slot - its.slot;  // of this host, on a machine that has two names
  wire::World world;
  world.generation = placement.generation;
  world.restarts = restarts;
  world.mapping = mapping;
  world.hosts.resize(placement.groups);
  for (const auto& program : job.programs) world.programs.push_back({program.argv, program.directory});
  for (const auto& seat : placement.seats) {
    world.hosts[seat.group_rank] = job.hosts.hosts[seat.host.value].name;
    world.host_of_rank.push_back(seat.group_rank);
    world.program_of_rank.push_back(static_cast<std::uint32_t>(seat.program));
    if (seat.host != its.host) continue;
    world.here = seat.group_rank;
    world.oversubscribed = seat.local_size > usable_cores(facts);
    auto sits = seat;
    sits.slot += first_slot;
    world.cpus.push_back(cpus_of(job, facts, sits, one.share.slots).value_or(std::vector<std::uint32_t>{}));
  }
  const bool bound =
      std::any_of(world.cpus.begin(), world.cpus.end(), [](const auto& cpus) { return !cpus.empty(); });
  if (!bound) world.cpus.clear();
  return world;
}

}  // namespace trainrun::core
