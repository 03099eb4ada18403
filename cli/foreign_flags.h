// Flags of the launchers that people come from, which have no counterpart of that name here: the one table of
// them. Some change nothing here and are left out with a line that says why; the others are answered.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/command_line.h"
#include "cli/options.h"

namespace trainrun::cli {

// What to write instead, or why there is none. `flag` is as bare_name gives it. Empty for all others.
std::string_view advice_for_foreign_flag(std::string_view flag);

// Those that are left out or mean a flag of ours, as flags of a job's command line.
const std::vector<Flag>& foreign_flags();

// The option of ours that `flag`, one of foreign_flags(), means by this value, and the value there.
std::optional<std::pair<Option, std::string_view>> meant_by(const Flag& flag, std::string_view value);

// Why `flag`, one of foreign_flags(), is left out; empty when this value of it cannot be left out.
std::string_view why_needless(const Flag& flag, std::string_view value);

}  // namespace trainrun::cli
