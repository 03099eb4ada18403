// Programs with hosts of their own: `-np 1 -H a ./server : -np 4 -H b,c ./client`. Pure.
#pragma once

#include <vector>

#include "cli/argv.h"
#include "cli/config.h"
#include "cli/settings.h"
#include "launcher/base/error.h"
#include "launcher/core/job_spec.h"

namespace trainrun::cli {

// Where parts have a -H of their own (take_common() leaves it there), fills JobSpec::rank_file: each part's
// ranks take the slots of its own hosts, in their order and as --map-by says; of a host that several parts
// name, each takes what those before it have left. Before, `job` has all hosts and the counts of ranks.
Result<void> seat_on_own_hosts(const Settings& settings, const std::vector<ArgvPart>& parts,
                               const Inputs& inputs, JobSpec& job);

// As Open MPI with --map-by node: each program begins anew with the first host. Nothing where another rule
// has placed the ranks.
Result<void> deal_each_program(JobSpec& job);

}  // namespace trainrun::cli
