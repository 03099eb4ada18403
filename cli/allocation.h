// The hosts that a batch system gave to the job which this process runs in. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/config.h"
#include "host-discovery/host.h"
#include "host-discovery/this_machine.h"
#include "launcher/base/error.h"

namespace trainrun::cli {

struct Allocation {
  std::string system;       // "Slurm", "PBS", ...; empty: this is no job of a batch system
  std::string origin;       // the variable that names the hosts
  std::vector<Host> hosts;  // not merged yet
};

// `system`: slurm, pbs, lsf or sge as in --hosts-from; empty: the first of them that has a job here, and what
// only `is_here` accepts counts as no allocation, when it gives one slot of one host: such a list says where
// the job is, not how many ranks it may have. Errors: a job whose list cannot be read, or a `system` that has
// no job here.
Result<Allocation> read_allocation(std::string_view system, const Inputs& inputs,
                                   const hosts::IsThisMachine& is_here);

// An error where srun runs several of us: the habit of writing `srun` before every program of a batch script.
Result<void> check_started_once(const std::vector<EnvVar>& environment);

// A line about hosts that were named inside a Slurm job and do not belong to it: they may be another job's.
std::optional<std::string> note_on_hosts_outside(const std::vector<Host>& named, const std::string& origin,
                                                 const Inputs& inputs, const hosts::IsThisMachine& is_here);

// A line about a job of PBS, LSF or Grid Engine whose list of hosts did not come with its number, as in a
// shell that sudo, cron or a container made: for somebody who named no hosts.
std::optional<std::string> note_on_lost_list(const std::vector<EnvVar>& environment);

// The threads that each rank of a Slurm job with `-c` may run: its CPUs. Where each host has one task, which
// is then the launcher of `ranks_of_task` ranks, they share its CPUs. 0: nobody said.
int slurm_threads(const std::vector<EnvVar>& environment, int ranks_of_task);

}  // namespace trainrun::cli
