#include "rendezvous/adapters/gloo_address.h"

#include <netinet/in.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <set>
#include <utility>

namespace trainrun::rendezvous {
namespace {

constexpr std::size_t port_size = 2;

bool all_zero(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == 0; });
}

// Empty: there is none at the beginning of `bytes`.
std::string ipv4(std::string_view bytes) {
  sockaddr_in at{};
  if (bytes.size() < sizeof at) return {};
  std::memcpy(&at, bytes.data(), sizeof at);
  const bool is_one = at.sin_family == AF_INET && at.sin_port != 0 && at.sin_addr.s_addr != 0 &&
                      all_zero({reinterpret_cast<const char*>(at.sin_zero), sizeof at.sin_zero});
  if (!is_one) return {};
  return std::string(bytes.substr(offsetof(sockaddr_in, sin_addr), sizeof at.sin_addr)) +
         std::string(bytes.substr(offsetof(sockaddr_in, sin_port), port_size));
}

std::string ipv6(std::string_view bytes) {
  sockaddr_in6 at{};
  if (bytes.size() < sizeof at) return {};
  std::memcpy(&at, bytes.data(), sizeof at);
  const auto address = bytes.substr(offsetof(sockaddr_in6, sin6_addr), sizeof at.sin6_addr);
  if (at.sin6_family != AF_INET6 || at.sin6_port == 0 || at.sin6_flowinfo != 0 || all_zero(address))
    return {};
  return std::string(address) + std::string(bytes.substr(offsetof(sockaddr_in6, sin6_port), port_size));
}

}  // namespace

std::vector<std::string> gloo_addresses(std::string_view value) {
  std::set<std::string> found;
  // Most of it is zero.
  constexpr char families[] = {AF_INET, AF_INET6};
  for (auto at = value.find_first_of(families, 0, sizeof families); at != value.npos;
       at = value.find_first_of(families, at + 1, sizeof families)) {
    const auto rest = value.substr(at);
    auto address = value[at] == AF_INET ? ipv4(rest) : ipv6(rest);
    if (!address.empty()) found.insert(std::move(address));
  }
  return {found.begin(), found.end()};
}

}  // namespace trainrun::rendezvous
