#include "rendezvous/own_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <memory>

namespace trainrun::rendezvous {

std::string own_address(bool v6) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) list = nullptr;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::string four, six;
  for (const ifaddrs* it = list; it != nullptr; it = it->ifa_next) {
    if (it->ifa_addr == nullptr || (it->ifa_flags & IFF_UP) == 0 || (it->ifa_flags & IFF_LOOPBACK) != 0)
      continue;
    char text[INET6_ADDRSTRLEN] = {};
    if (it->ifa_addr->sa_family == AF_INET && four.empty()) {
      ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(it->ifa_addr)->sin_addr, text, sizeof text);
      four = text;
    } else if (it->ifa_addr->sa_family == AF_INET6 && six.empty()) {
      const auto& address = reinterpret_cast<const sockaddr_in6*>(it->ifa_addr)->sin6_addr;
      if (IN6_IS_ADDR_LINKLOCAL(&address)) continue;  // no use without a scope that differs from host to host
      ::inet_ntop(AF_INET6, &address, text, sizeof text);
      six = text;
    }
  }
  if (v6 && !six.empty()) return six;
  if (!four.empty()) return four;
  return v6 ? "::1" : "127.0.0.1";
}

}  // namespace trainrun::rendezvous
