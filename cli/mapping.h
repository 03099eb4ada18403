// Where the ranks go, on the hosts that were chosen: --map-by, --ppn, --nolocal, --rankfile. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/config.h"
#include "cli/host_choice.h"
#include "cli/settings.h"
#include "launcher/base/error.h"
#include "launcher/core/job_spec.h"

namespace trainrun::cli {

// Takes hosts that get no rank out of `choice`, and adds those of a rank file where nobody named any. Lines
// for people are added to `notes`.
Result<void> read_mapping(const Settings& settings, const Inputs& inputs, HostChoice& choice, JobSpec& job,
                          std::vector<std::string>& notes);

}  // namespace trainrun::cli
