// What an agent tells as evidence of a kill by the kernel for memory (Exited::out_of_memory).
#pragma once

#include <string_view>

namespace trainrun::wire {

// Evidence that begins so names the very process; other evidence names none.
inline constexpr std::string_view kernel_named_it = "kernel: ";

}  // namespace trainrun::wire
