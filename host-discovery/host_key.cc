#include "host-discovery/host_key.h"

#include <fmt/format.h>

#include "host-discovery/address.h"

namespace trainrun::hosts {

std::string name_key(std::string_view name) {
  if (name.ends_with('.')) name.remove_suffix(1);
  if (name.find(':') != std::string_view::npos) {
    const auto zone = name.find('%');
    if (auto text = address_text(address_bytes(name)); !text.empty())
      return zone == std::string_view::npos ? text : text.append(name.substr(zone));
  }
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
