#include "rendezvous/adapters/gloo_address.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>

#include <cstring>

using namespace trainrun::rendezvous;

namespace {

// As Gloo's tcp::Address has it: the system's sockaddr_storage, then a number.
std::string written(const void* address, std::size_t size, std::size_t number) {
  sockaddr_storage at{};
  std::memcpy(&at, address, size);
  return std::string(reinterpret_cast<const char*>(&at), sizeof at) +
         std::string(reinterpret_cast<const char*>(&number), sizeof number);
}

std::string written4(const char* host, std::uint16_t port, std::size_t number) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  REQUIRE(::inet_pton(AF_INET, host, &at.sin_addr) == 1);
  return written(&at, sizeof at, number);
}

std::string written6(const char* host, std::uint16_t port) {
  sockaddr_in6 at{};
  at.sin6_family = AF_INET6;
  at.sin6_port = htons(port);
  at.sin6_scope_id = 2;
  REQUIRE(::inet_pton(AF_INET6, host, &at.sin6_addr) == 1);
  return written(&at, sizeof at, 0);
}

}  // namespace

TEST_CASE("the addresses for each peer are found, each once, wherever they lie") {
  const std::string first("\x0a\x4d\x00\x02\xbf\xa1", 6), second("\x0a\x4d\x00\x02\x00\x50", 6);
  // Of two peers, and of the rank itself, which has none.
  const auto value = written4("10.77.0.2", 49057, 1) + std::string(136, '\0') + written4("10.77.0.2", 80, 2);
  CHECK(gloo_addresses(value) == std::vector<std::string>{second, first});
  CHECK(gloo_addresses("x" + value + value) == std::vector<std::string>{second, first});
}

TEST_CASE("an address of IPv6 has 18 bytes") {
  const auto found = gloo_addresses(written6("fd00::2", 49057));
  REQUIRE(found.size() == 1);
  CHECK(found.front() == std::string("\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02\xbf\xa1", 18));
}

TEST_CASE("what has no port, no address or is cut off is none") {
  CHECK(gloo_addresses({}).empty());
  CHECK(gloo_addresses(std::string(1000, '\0')).empty());
  CHECK(gloo_addresses(written4("10.77.0.2", 0, 1)).empty());
  CHECK(gloo_addresses(written4("0.0.0.0", 80, 1)).empty());
  CHECK(gloo_addresses(written6("::", 80)).empty());
  CHECK(gloo_addresses(written4("10.77.0.2", 80, 1).substr(0, 15)).empty());
}
