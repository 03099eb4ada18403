// --print-config: every setting with its origin, as TOML that --config reads again.
#pragma once

#include <string>
#include <vector>

#include "cli/argv.h"
#include "cli/resolve.h"
#include "cli/settings.h"

namespace trainrun::cli {

// `parts` are the programs that `resolved` was made of. Values of credentials are left out, and those of `-x
// NAME`, which is read again as it stands.
std::string print_config(const Settings& settings, const std::vector<ArgvPart>& parts,
                         const Resolved& resolved);

}  // namespace trainrun::cli
