// The rows of the table, for options.cc alone.
#pragma once

#include <vector>

#include "cli/options.h"

namespace trainrun::cli {

const std::vector<OptionInfo>& option_table();  // in the order of enum Option

}  // namespace trainrun::cli
