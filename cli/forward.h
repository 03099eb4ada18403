// What of the environment the workers get: --env, --env-file, -x and [env]. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/argv.h"
#include "cli/config.h"
#include "cli/settings.h"
#include "launcher/base/error.h"

namespace trainrun::cli {

// Fills in job.env, job.not_forwarded, job.inherit_all and the env of each program of `job`, of which
// parts[i] is the source. `notes` get a line for every -x that has no effect: nothing of that name is set
// here, or every rank has the variable from us. An Error is about the file of --env-file.
Result<void> forward(const Settings& settings, const std::vector<ArgvPart>& parts, bool this_host_alone,
                     const Inputs& inputs, JobSpec& job, std::vector<std::string>& notes);

}  // namespace trainrun::cli
