// Where a member of a Gloo mesh listens for the others, read out of what it has written down for them. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainrun::rendezvous {

// Each an IPv4 or IPv6 address and a port in network order, 6 or 18 bytes, once. Gloo writes the socket
// addresses of the system as they are in memory, one for each peer or one for all, among fields whose order
// depends on its version: so they are looked for, and bytes that only look like one are given as well.
std::vector<std::string> gloo_addresses(std::string_view value);

}  // namespace trainrun::rendezvous
