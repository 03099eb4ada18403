// --print-config: every setting with its origin, as TOML that --config reads again.
#pragma once

#include <string>

#include "cli/resolve.h"
#include "cli/settings.h"

namespace trainrun::cli {

std::string print_config(const Settings& settings, const Resolved& resolved);

}  // namespace trainrun::cli
