// `trainrun comm-info`: what programs on comm can use on this host, told by the library that they would load.
#pragma once

#include <string>
#include <vector>

#include "cli/config.h"
#include "launcher/base/error.h"

namespace trainrun::cli {

// `words` are those after `comm-info`. The text that is to be printed.
Result<std::string> comm_info(const std::vector<std::string>& words, const Inputs& inputs);

}  // namespace trainrun::cli
