// Ranks as people write them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainrun {

// {0,1,2,5} -> "0-2,5"; they ascend.
std::string as_ranges(const std::vector<std::uint32_t>& ranks);

}  // namespace trainrun
