// IP addresses as values, so that their spelling does not matter.
#pragma once

#include <string>
#include <string_view>

namespace trainrun::hosts {

// The 4 or 16 bytes of an address without brackets, in network order; an IPv4 address that is written as an
// IPv6 one has 4. A zone (`%eth0`) is no part of it. Empty for what is no address.
std::string address_bytes(std::string_view text);

// 127.x or ::1, as address_bytes() gives it.
bool is_loopback(std::string_view bytes);

// As RFC 5952 writes it: small letters, the longest row of zeros left out. Empty for no bytes.
std::string address_text(std::string_view bytes);

}  // namespace trainrun::hosts
