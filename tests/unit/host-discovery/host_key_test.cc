#include "host-discovery/host_key.h"

#include <doctest/doctest.h>

namespace trainrun::hosts {
namespace {

TEST_CASE("names of one host have one key") {
  const std::pair<const char*, const char*> same[] = {
      {"gpu1", "GPU1"},        {"gpu1.example.com", "Gpu1.Example.COM."}, {"fd00::5", "FD00:0:0::5"},
      {"::1", "0:0::0:1"},     {"fe80::1%eth0", "FE80::0:1%eth0"},        {"::ffff:10.0.0.1", "10.0.0.1"},
      {"10.0.0.1", "10.0.0.1"}};
  for (const auto& [one, other] : same) {
    CAPTURE(one);
    CHECK(name_key(one) == name_key(other));
  }
  const std::pair<const char*, const char*> different[] = {
      {"gpu1", "gpu2"},         {"gpu1", "gpu1.example.com"},     {"fd00::5", "fd00::6"},
      {"10.0.0.1", "10.0.0.2"}, {"fe80::1%eth0", "fe80::1%eth1"}, {"localhost", "127.0.0.1"}};
  for (const auto& [one, other] : different) {
    CAPTURE(one);
    CHECK(name_key(one) != name_key(other));
  }
}

TEST_CASE("a host is its name, user and port, whatever its slots and key are") {
  const Host host{.name = "gpu1", .user = "me", .port = 22};
  CHECK(host_key(host) ==
        host_key({.name = "GPU1.", .user = "me", .port = 22, .identity = "/k", .slots = 8}));
  CHECK(host_key(host) != host_key({.name = "gpu1", .port = 22}));
  CHECK(host_key(host) != host_key({.name = "gpu1", .user = "Me", .port = 22}));
  CHECK(host_key(host) != host_key({.name = "gpu1", .user = "me", .port = 23}));
}

}  // namespace
}  // namespace trainrun::hosts
