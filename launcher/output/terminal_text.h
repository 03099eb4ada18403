// What ranks print, for a terminal. Our own lines are made printable() instead, colours and all.
#pragma once

#include <string>
#include <string_view>

namespace trainrun::output {

// Colours stay (and are reset at the end), every other control sequence becomes visible.
std::string neutralised(std::string_view line);
std::string without_colours(std::string_view line);

}  // namespace trainrun::output
