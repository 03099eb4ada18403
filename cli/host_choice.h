// Which hosts the job runs on. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/config.h"
#include "cli/settings.h"
#include "host-discovery/host.h"
#include "launcher/base/error.h"

namespace trainrun::cli {

struct HostChoice {
  std::vector<Host> hosts;   // merged; empty: nobody named any, so this host alone
  std::string origin;        // "-H", "job.toml:2:9", "PBS_NODEFILE"; "default" when hosts is empty
  std::string batch_system;  // whose allocation it is, "Slurm"; else empty
  std::string slots_from;    // the host file, when all counts of slots are its own; else empty
  bool this_host_alone = true;
};

// --hostfile defines and -H filters; -H alone defines; else the allocation of a batch system, unless
// --hosts-from none.
Result<HostChoice> choose_hosts(const Settings& settings, const Inputs& inputs);

// The key of --ssh-identity-file, at `path`: one that is not there would be noticed only as a login that
// fails.
Result<void> key_is_there(const Settings& settings, const std::string& path, const Inputs& inputs);

}  // namespace trainrun::cli
