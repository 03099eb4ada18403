#include "host-discovery/this_machine.h"

#include <algorithm>
#include <utility>

#include "host-discovery/address.h"
#include "host-discovery/host_key.h"
#include "launcher/base/strings.h"

namespace trainrun::hosts {

ThisMachine::ThisMachine(Facts facts) : user_(std::move(facts.user)) {
  for (const auto& address : facts.addresses) addresses_.insert(address_bytes(address));
  addresses_.erase(std::string());
  names_.insert("localhost");
  names_.insert(name_key(facts.host_name));
  names_.insert(name_key(facts.host_name.substr(0, facts.host_name.find('.'))));
  for (auto line : split(facts.hosts_file, '\n')) {
    line = line.substr(0, line.find('#'));
    bool own = false, first = true;
    for (std::size_t at = 0; (at = line.find_first_not_of(" \t\r", at)) != std::string_view::npos;) {
      const auto end = std::min(line.find_first_of(" \t\r", at), line.size());
      const auto word = line.substr(at, end - at);
      if (first) {
        own = has_address(address_bytes(word));
      } else if (own) {
        names_.insert(name_key(word));
      }
      first = false;
      at = end;
    }
  }
  names_.erase(std::string());
}

bool ThisMachine::has_address(std::string_view bytes) const {
  return is_loopback(bytes) || addresses_.contains(bytes);
}

bool ThisMachine::has_name(std::string_view name) const {
  if (const auto address = address_bytes(name); !address.empty()) return has_address(address);
  return names_.contains(name_key(name));
}

bool ThisMachine::is(const Host& host) const {
  if (host.port != 0 || !has_name(host.name)) return false;
  return host.user.empty() || (user_ && host.user == user_());
}

}  // namespace trainrun::hosts
