// What a rank wrote about its end into the file that TORCHELASTIC_ERROR_FILE names (torch's @record).
#pragma once

#include <cstddef>
#include <string>

namespace trainrun::agent {

inline constexpr std::size_t longest_error_file = 64 * 1024;

// Its content; empty if there is none. A rank can put anything there: what is no ordinary file (a link, a
// pipe) or longer than that is left alone.
std::string read_error_file(const std::string& path);

}  // namespace trainrun::agent
