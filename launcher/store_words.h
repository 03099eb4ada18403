// What StoreCensus and our own store have found, in words, but for who is absent, which the brain tells.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launcher/store_census.h"
#include "rendezvous/adapters/torch_claims.h"

namespace trainrun {

// A line each. `name`: "rank 3 on gpu2". `port`: MASTER_PORT.
std::vector<std::string> store_lines(const StoreFindings& found, std::uint16_t port,
                                     const std::function<std::string(WorkerId)>& name);

std::string clash_line(const rendezvous::TorchClash& clash);
// All `size` ranks have come and wait for that one.
std::string beyond_line(std::size_t size, std::uint32_t rank);

}  // namespace trainrun
