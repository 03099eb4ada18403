// The strict grammar of what names a host. Whatever passes here is safe to give to ssh, a resolver or a log:
// no shell character, no control byte, never a leading '-'.
#pragma once

#include <string_view>
#include <vector>

#include "host-discovery/host.h"
#include "launcher/base/error.h"

namespace trainrun::hosts {

bool is_ipv4(std::string_view text);  // four numbers 0..255 without leading zeros
bool is_ipv6(std::string_view text);  // without brackets; a zone (`%eth0`) may follow

// Host names (letters, digits, '.', '-', '_'; labels of 1..63, 253 in all; one final dot), IPv4 and IPv6
// addresses.
Result<void> check_name(std::string_view name);
// 1..32 of letters, digits, '.', '-', '_', not beginning with '-' or '.'.
Result<void> check_user(std::string_view user);

// One item as the user wrote it, without blanks around it:
//   [user@]name[:slots]   [user@][v6-address][:slots]   ssh://[user@]name[:port]
// where a name may hold ranges, `node[01-08,11]`, and then gives several hosts. A host without a count has
// slots 1 and slots_given false. Errors quote the item, with Code::config; the caller adds where it stood.
Result<std::vector<Host>> parse_host_item(std::string_view item);

}  // namespace trainrun::hosts
