#include "launcher/core/addresses.h"

#include <doctest/doctest.h>

using namespace trainrun;
using namespace trainrun::core;

namespace {

// This host and two that were reached over ssh.
struct ThreeHosts {
  ThreeHosts() {
    for (std::uint32_t i = 0; i < 3; ++i) {
      job.hosts.hosts.push_back({.name = "h" + std::to_string(i), .slots = 1, .slots_given = true});
      facts[i].interfaces = {{"lo", "127.0.0.1"}, {"eth0", "10.0.0." + std::to_string(i)}};
      if (i > 0) facts[i].interfaces.push_back({"ib0", "10.9.0." + std::to_string(i)});
    }
    facts[1].ssh_connection = "192.168.1.100 4000 192.168.1.1 22";
    facts[2].ssh_connection = "192.168.2.100 4000 192.168.2.1 22";
  }
  [[nodiscard]] FactsByHost all() const {
    FactsByHost by_host;
    for (std::uint32_t i = 0; i < 3; ++i) by_host[{i}] = &facts[i];
    return by_host;
  }

  JobSpec job;
  std::array<wire::HostFacts, 3> facts;
};

using Addresses = std::map<HostIndex, std::string>;

}  // namespace

TEST_CASE(
    "addresses: where ssh reached a host, and from where, and all at once are the same as each by itself") {
  ThreeHosts three;
  const auto addresses = addresses_of(three.all(), three.job);
  CHECK(addresses == Addresses{{{0}, "192.168.1.100"}, {{1}, "192.168.1.1"}, {{2}, "192.168.2.1"}});
  for (const auto& [host, address] : addresses)
    CHECK(address_of(host, three.all(), three.job).value() == address);
}

TEST_CASE("addresses: the first host that ssh reached from here says what this one's is") {
  ThreeHosts three;
  SUBCASE("the last of them") {
    three.facts[1].ssh_connection.clear();
    CHECK(addresses_of(three.all(), three.job).at({0}) == "192.168.2.100");
    CHECK(addresses_of(three.all(), three.job).at({1}) == "192.168.2.100");
  }
  SUBCASE("none") {
    three.facts[1].ssh_connection.clear();
    three.facts[2].ssh_connection.clear();
    CHECK(addresses_of(three.all(), three.job) ==
          Addresses{{{0}, "10.0.0.0"}, {{1}, "10.0.0.1"}, {{2}, "10.0.0.2"}});
  }
}

TEST_CASE("addresses: a host without the named interface has none, and is an error by itself") {
  ThreeHosts three;
  three.job.network_interface = "ib0";
  CHECK(addresses_of(three.all(), three.job) == Addresses{{{1}, "10.9.0.1"}, {{2}, "10.9.0.2"}});
  CHECK(address_of({0}, three.all(), three.job).error().code == Code::config);
}

TEST_CASE("addresses: a host alone is 127.0.0.1, unless others may join it") {
  ThreeHosts three;
  auto& job = three.job;
  const FactsByHost alone{{HostIndex{1}, &three.facts[1]}};
  CHECK(address_of({1}, alone, job).value() == "127.0.0.1");  // the others have no ranks, and will not
  job.elastic.on_failure = OnFailure::automatic;
  CHECK(address_of({1}, alone, job).value() == "192.168.1.1");
  job.hosts.hosts.resize(1);
  job.hosts.hosts.front().slots = 2;
  job.elastic.max_np = 2;  // as many as it has room for
  CHECK(address_of({1}, alone, job).value() == "127.0.0.1");
  job.elastic.max_np = 4;  // trainrun ctl add
  CHECK(address_of({1}, alone, job).value() == "192.168.1.1");
  job.elastic.max_np = 2;
  job.elastic.discovery.kind = DiscoveryKind::script;
  CHECK(address_of({1}, alone, job).value() == "192.168.1.1");
}
