// --nproc-per-node gpu, cpu or auto, as torchrun has them: a count that depends on the host.
#pragma once

#include <string>
#include <vector>

#include "cli/config.h"
#include "cli/settings.h"
#include "launcher/base/error.h"

namespace trainrun::cli {

// Replaces such a word in `settings` by the count of this host, with a line in `notes`. What other hosts have
// is not known before the start, so that a job on them is an error.
Result<void> count_per_host(Settings& settings, const Inputs& inputs, std::vector<std::string>& notes);

}  // namespace trainrun::cli
