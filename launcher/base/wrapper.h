// Programs that do nothing but run another, whose place among their words their own options decide.
#pragma once

#include <string_view>

namespace trainrun {

// By the name, or the name at the end of a path: nice, timeout, taskset, ... Not env, which also sets what
// the other is found by.
bool is_wrapper(std::string_view program);

}  // namespace trainrun
