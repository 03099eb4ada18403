// The rows of the table, for options.cc alone.
#pragma once

#include <span>

#include "cli/options.h"

namespace trainrun::cli {

std::span<const OptionInfo> option_table();  // in the order of enum Option

}  // namespace trainrun::cli
