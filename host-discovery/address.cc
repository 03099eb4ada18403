#include "host-discovery/address.h"

#include <arpa/inet.h>  // to read and write addresses, which opens nothing

#include <array>

namespace trainrun::hosts {

std::string address_bytes(std::string_view text) {
  constexpr std::string_view mapped("\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);  // ::ffff:10.0.0.1
  const std::string copy(text.substr(0, text.find('%')));
  std::array<char, sizeof(in6_addr)> bytes{};
  if (inet_pton(AF_INET, copy.c_str(), bytes.data()) == 1) return {bytes.data(), sizeof(in_addr)};
  if (inet_pton(AF_INET6, copy.c_str(), bytes.data()) != 1) return {};
  const std::string_view six(bytes.data(), bytes.size());
  return std::string(six.starts_with(mapped) ? six.substr(mapped.size()) : six);
}

bool is_loopback(std::string_view bytes) {
  static const std::string six = address_bytes("::1");
  return (bytes.size() == sizeof(in_addr) && bytes.front() == 127) || bytes == six;
}

std::string address_text(std::string_view bytes) {
  if (bytes.empty()) return {};
  std::array<char, INET6_ADDRSTRLEN> text{};
  const int family = bytes.size() == sizeof(in_addr) ? AF_INET : AF_INET6;
  return inet_ntop(family, bytes.data(), text.data(), text.size()) == nullptr ? "" : text.data();
}

}  // namespace trainrun::hosts
