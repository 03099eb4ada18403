#include "launcher/transport/own_names.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>

#include "launcher/base/fd.h"
#include "launcher/base/strings.h"

namespace trainrun::transport {

namespace {

// The bytes of an address, so that its spelling does not matter; empty for what is no address.
std::string address_bytes(std::string_view text) {
  const std::string copy(text.substr(0, text.find('%')));
  std::array<char, sizeof(in6_addr)> bytes{};
  if (inet_pton(AF_INET, copy.c_str(), bytes.data()) == 1) return {bytes.data(), sizeof(in_addr)};
  if (inet_pton(AF_INET6, copy.c_str(), bytes.data()) == 1) return {bytes.data(), sizeof(in6_addr)};
  return {};
}

bool is_loopback(const std::string& address) {
  static const std::string six = address_bytes("::1");
  return (address.size() == sizeof(in_addr) && address.front() == 127) || address == six;
}

std::string lower(std::string_view name) {
  std::string copy(name);
  for (auto& c : copy)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return copy;
}

std::string number_of(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes = nullptr;
  if (address->sa_family == AF_INET) bytes = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  if (address->sa_family == AF_INET6) bytes = &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  if (bytes == nullptr || inet_ntop(address->sa_family, bytes, text.data(), text.size()) == nullptr)
    return {};
  return text.data();
}

}  // namespace

OwnNames::OwnNames(std::string_view hostname, const std::vector<std::string>& addresses,
                   std::string_view hosts_file) {
  for (const auto& address : addresses) addresses_.insert(address_bytes(address));
  addresses_.erase(std::string());
  names_.insert("localhost");
  names_.insert(lower(hostname));
  if (const auto dot = hostname.find('.'); dot != std::string_view::npos)
    names_.insert(lower(hostname.substr(0, dot)));
  for (auto line : split(hosts_file, '\n')) {
    line = line.substr(0, line.find('#'));
    bool own = false, first = true;
    for (std::size_t at = 0; (at = line.find_first_not_of(" \t\r", at)) != std::string_view::npos;) {
      const auto end = std::min(line.find_first_of(" \t\r", at), line.size());
      const auto word = line.substr(at, end - at);
      if (first) {
        own = has_address(address_bytes(word));
      } else if (own) {
        names_.insert(lower(word));
      }
      first = false;
      at = end;
    }
  }
  names_.erase(std::string());
}

bool OwnNames::has_address(const std::string& bytes) const {
  return is_loopback(bytes) || addresses_.contains(bytes);
}

bool OwnNames::has(std::string_view name) const {
  if (const auto address = address_bytes(name); !address.empty()) return has_address(address);
  return names_.contains(lower(name));
}

namespace {

std::string own_hostname() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return addresses;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  for (const auto* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr) continue;
    if (auto number = number_of(each->ifa_addr); !number.empty()) addresses.push_back(std::move(number));
  }
  return addresses;
}

}  // namespace

bool is_this_host(const std::string& name) {
  // Made once a process: a list of a thousand hosts asks some thousand times. Most single names need only the
  // first.
  static const OwnNames by_heart(own_hostname(), {}, {});
  if (by_heart.has(name)) return true;
  static const OwnNames all(own_hostname(), own_addresses(),
                            read_file("/etc/hosts", 1 << 20).value_or(std::string()));
  return all.has(name);
}

}  // namespace trainrun::transport
