// What toml++ cannot bear: it takes a key apart by a call for each of its parts. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace trainrun::cli {

constexpr std::size_t most_key_parts = 8;

// The line, from 1, of the first dotted key or header that has more than most_key_parts. What stands in
// strings and comments is none.
std::optional<std::size_t> line_of_long_key(std::string_view text);

}  // namespace trainrun::cli
