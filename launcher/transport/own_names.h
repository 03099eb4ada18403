// Is a host this host? Answered without DNS, so that a job here needs no network.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace trainrun::transport {

// localhost, 127.x, ::1, our host name (short, or in full when /etc/hosts knows it), an address of one of our
// interfaces, or a name that /etc/hosts gives one of these addresses. Reads the system once a process.
bool is_this_host(const std::string& name);

// The pure part, made once and asked for many names: `hosts_file` is the text of /etc/hosts, `addresses` are
// our interfaces'.
class OwnNames {
 public:
  OwnNames(std::string_view hostname, const std::vector<std::string>& addresses, std::string_view hosts_file);
  [[nodiscard]] bool has(std::string_view name) const;

 private:
  [[nodiscard]] bool has_address(const std::string& bytes) const;

  std::set<std::string> names_;      // in small letters
  std::set<std::string> addresses_;  // as bytes
};

}  // namespace trainrun::transport
