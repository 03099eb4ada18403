// Is a host this host? Answered without DNS, so that a job here needs no network.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainrun::transport {

// localhost, 127.x, ::1, our host name (short, or in full when /etc/hosts knows it), an address of one of our
// interfaces, or a name that /etc/hosts gives one of these addresses. Reads the system once a process.
bool is_this_host(const std::string& name);

// The pure part: `hosts_file` is the text of /etc/hosts, `addresses` are our interfaces'.
bool is_own_name(std::string_view name, std::string_view hostname, const std::vector<std::string>& addresses,
                 std::string_view hosts_file);

}  // namespace trainrun::transport
