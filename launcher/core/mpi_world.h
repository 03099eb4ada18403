// Whose MPI the programs of a world are, of what the agents have found. Ranks of two MPIs wait for each other
// for ever. Pure.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "launcher/core/cause.h"
#include "launcher/core/job_spec.h"
#include "launcher/core/notice.h"
#include "launcher/core/placement.h"

namespace trainrun::core {

// Null where nothing is known of the host.
using FactsOf = std::function<const wire::HostFacts*(HostIndex)>;

// Two of the programs of `world` that cannot meet; rather two that are known than two of which one is
// guessed.
std::optional<std::pair<MpiPart, MpiPart>> mpi_clash(const JobSpec& job, const Placement& world,
                                                     const FactsOf& facts);

// What serves each program that is one of MPI; of hosts that agree the first is named.
std::vector<notice::MpiFound> mpi_found(const JobSpec& job, const Placement& world, const FactsOf& facts);

}  // namespace trainrun::core
