// A part of --help: names of flags, in lines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainrun::cli {

// An empty line, `title`, and the names with commas between them in lines of 95 columns at most.
std::string flag_list(std::string_view title, const std::vector<std::string>& names);

}  // namespace trainrun::cli
