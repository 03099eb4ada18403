// Slurm's hostlist notation, `node[01-03,07],gpu[1-2]`, as text to names. Knows nothing about users, ports or
// slots.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/base/error.h"

namespace trainrun::hosts {

inline constexpr std::size_t most_hosts = 65536;          // of one list, one file, one expression
inline constexpr std::size_t longest_item = 64 * 1024;    // bytes of one expression
inline constexpr std::size_t longest_text = 4096 * 1024;  // bytes of a whole list or file

// The names of one item: `n1`, `n[01-03,7]`, `rack[0-1]n[1-2].site`. The order is Slurm's: with several
// brackets the last one runs fastest, then the first, the second and so on. Repeats are kept. Each name has
// passed check_name(). Errors name the item, with Code::config.
Result<std::vector<std::string>> expand_item(std::string_view item);

// The names of a whole list; items are separated by commas, blanks, tabs and newlines, empty items are
// skipped. An empty list is no error.
Result<std::vector<std::string>> expand_hostlist(std::string_view text);

// `node{01..04,7}`, which the shell did not expand, as it is written here: `node[01-04,7]`. Empty: it is
// nothing of that kind.
std::string braces_as_ranges(std::string_view text);

}  // namespace trainrun::hosts
