#include "launcher/transport/own_names.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <pwd.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "host-discovery/this_machine.h"
#include "launcher/base/fd.h"

namespace trainrun::transport {
namespace {

std::string own_hostname() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// As ssh finds out whom to log in as.
std::string own_user() {
  const auto* entry = ::getpwuid(::geteuid());
  return entry == nullptr ? "" : entry->pw_name;
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

bool is_this_machine(const Host& host) {
  // Made once a process: a list of a thousand hosts asks some thousand times. Most single names need only the
  // first.
  static const hosts::ThisMachine by_heart({.host_name = own_hostname(), .user = own_user});
  if (by_heart.is(host)) return true;
  static const hosts::ThisMachine all({.host_name = own_hostname(),
                                       .addresses = own_addresses(),
                                       .hosts_file = read_file("/etc/hosts", 1 << 20).value_or(std::string()),
                                       .user = own_user});
  return all.is(host);
}

}  // namespace trainrun::transport
