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

// An address in one spelling; empty for what is no address.
std::string canonical(std::string_view text) {
  const std::string copy(text.substr(0, text.find('%')));
  std::array<char, sizeof(in6_addr)> bytes{};
  std::array<char, INET6_ADDRSTRLEN> written{};
  for (const int family : {AF_INET, AF_INET6}) {
    if (inet_pton(family, copy.c_str(), bytes.data()) == 1) {
      return inet_ntop(family, bytes.data(), written.data(), written.size()) == nullptr ? "" : written.data();
    }
  }
  return {};
}

bool is_loopback(std::string_view address) { return address.starts_with("127.") || address == "::1"; }

bool same_name(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
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

bool is_own_name(std::string_view name, std::string_view hostname, const std::vector<std::string>& addresses,
                 std::string_view hosts_file) {
  const auto is_own_address = [&](const std::string& address) {
    return is_loopback(address) || std::find(addresses.begin(), addresses.end(), address) != addresses.end();
  };
  if (const auto address = canonical(name); !address.empty()) return is_own_address(address);
  if (same_name(name, "localhost") || (!hostname.empty() && same_name(name, hostname))) return true;
  if (const auto dot = hostname.find('.');
      dot != std::string_view::npos && same_name(name, hostname.substr(0, dot))) {
    return true;
  }
  for (auto line : split(hosts_file, '\n')) {
    line = line.substr(0, line.find('#'));
    std::vector<std::string_view> words;
    for (std::size_t at = 0; (at = line.find_first_not_of(" \t\r", at)) != std::string_view::npos;) {
      const auto end = std::min(line.find_first_of(" \t\r", at), line.size());
      words.push_back(line.substr(at, end - at));
      at = end;
    }
    if (words.size() < 2 || !is_own_address(canonical(words[0]))) continue;
    if (std::any_of(words.begin() + 1, words.end(), [&](auto word) { return same_name(word, name); }))
      return true;
  }
  return false;
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
  // Read once a process: a list of a thousand hosts asks a thousand times. Most single names need only the
  // first line.
  static const std::string hostname = own_hostname();
  if (is_own_name(name, hostname, {}, {})) return true;
  static const std::vector<std::string> addresses = own_addresses();
  static const std::string hosts = read_file("/etc/hosts", 1 << 20).value_or(std::string());
  return is_own_name(name, hostname, addresses, hosts);
}

}  // namespace trainrun::transport
