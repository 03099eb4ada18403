// What StoreCensus has found, in words, but for `absent`, which the brain tells.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launcher/store_census.h"

namespace trainrun {

// A line each. `name`: "rank 3 on gpu2". `port`: MASTER_PORT.
std::vector<std::string> store_lines(const StoreFindings& found, std::uint16_t port,
                                     const std::function<std::string(WorkerId)>& name);

}  // namespace trainrun
