// What PyTorch's ranks are given, and torchrun's own words for output. Pure.
#pragma once

#include "cli/config.h"
#include "cli/resolve.h"
#include "cli/settings.h"

namespace trainrun::cli {

// The settings, which were checked, into `out.job`, with a line in `out.notes` where something is chosen.
void read_torch_settings(const Settings& settings, const Inputs& inputs, Resolved& out);

}  // namespace trainrun::cli
