// Flags of the launchers that people come from, which have no counterpart of that name here. Pure.
#pragma once

#include <string_view>

namespace trainrun::cli {

// What to write instead, or why there is none. `flag` is as in options.cc: a word without its dashes and with
// `-` for `_`, a single letter with its dash. Empty for all others.
std::string_view advice_for_foreign_flag(std::string_view flag);

}  // namespace trainrun::cli
