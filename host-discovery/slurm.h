// The hosts of the Slurm job that this process runs in, from its environment alone.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host-discovery/host.h"
#include "launcher/base/error.h"

namespace trainrun::hosts {

using EnvLookup = std::function<std::optional<std::string>(std::string_view name)>;

// No hosts outside a job (no SLURM_JOB_ID). Else its nodes in Slurm's order with SLURM_TASKS_PER_NODE as
// slots; inside a step those of the step, since Slurm then sets the counts, but not the job's node list, to
// the step's; of a heterogeneous job all components, one after the other. Without the counts variable the
// hosts have no count. Errors name the variable and what it holds.
Result<std::vector<Host>> slurm_hosts(const EnvLookup& env);

// The hosts that are left of that job, from what `squeue -h -o %N` printed: the environment still names the
// nodes that the job has lost. Counts are the environment's, so a node that it does not know has none.
// Errors: no host list.
Result<std::vector<Host>> live_slurm_hosts(std::string_view output, const EnvLookup& env);

// "2(x3),1" -> 2 2 2 1. At most `most` entries are made; what comes after them is only checked.
Result<std::vector<int>> expand_counts(std::string_view text, std::size_t most);

}  // namespace trainrun::hosts
