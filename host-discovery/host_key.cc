#include "host-discovery/host_key.h"

#include <fmt/format.h>

namespace trainrun::hosts {

std::string name_key(std::string_view name) {
  if (name.ends_with('.')) name.remove_suffix(1);
  std::string key(name);
  for (auto& c : key) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return key;
}

std::string host_key(const Host& host) {
  return fmt::format("{}\n{}\n{}", name_key(host.name), host.user, host.port);  // no name has a newline
}

}  // namespace trainrun::hosts
