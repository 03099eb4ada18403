// Settings and program words -> JobSpec: hosts, number of ranks, programs, environment. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/config.h"
#include "cli/settings.h"
#include "launcher/base/error.h"

namespace trainrun::cli {

struct Resolved {
  JobSpec job;
  std::string hosts_origin;  // "default" when nobody named hosts
  std::string np_origin;     // "-np", "all slots of the hosts", ...
  // Of an elastic job; else empty.
  std::string elastic_origin, min_np_origin, max_np_origin;
  std::string program_origin;  // "command line", or the place in the file; set by the caller
  bool this_host_alone = true;
  std::vector<std::string> notes;
};

// `parts` are the programs with their own settings (np, wdir, module, -x), checked already. Without
// `needs_program` a single part may name none; its Program then has no words. Without a discovery the
// result has been placed once, so that what can be wrong with the numbers is an Error here.
Result<Resolved> resolve(const Settings& settings, const std::vector<ArgvPart>& parts, bool needs_program,
                         const Inputs& inputs);

}  // namespace trainrun::cli
