#include "host-discovery/batch.h"

#include <doctest/doctest.h>

#include <functional>

using namespace trainrun;
using namespace trainrun::hosts;

namespace {

std::string shown(const Result<std::vector<Host>>& hosts) {
  if (!hosts) return hosts.error().message;
  std::string out;
  for (const auto& host : *hosts)
    out += host.name + (host.slots_given ? ":" + std::to_string(host.slots) : std::string()) + " ";
  return out;
}

}  // namespace

TEST_CASE("a line is a slot, in a row or not; hosts that stand there once each have no count") {
  CHECK(shown(hosts_by_line("n2\nn2\nn1\nn1\n", "PBS_NODEFILE")) == "n2:1 n2:1 n1:1 n1:1 ");
  CHECK(shown(hosts_by_line("n1\r\nn2\r\n\r\nn1\r\n", "PBS_NODEFILE")) == "n1:1 n2:1 n1:1 ");
  CHECK(shown(hosts_by_line("n1\nn2\n", "PBS_NODEFILE")) == "n1 n2 ");
  CHECK(shown(hosts_by_line("", "PBS_NODEFILE")) == "PBS_NODEFILE: names no host");
  CHECK_FALSE(hosts_by_line("n1\n-oProxyCommand=x\n", "PBS_NODEFILE"));
}

TEST_CASE("LSF writes pairs of a host and its slots") {
  CHECK(shown(hosts_by_pair("hostA 4 hostB 8", "LSB_MCPU_HOSTS")) == "hostA:4 hostB:8 ");
  CHECK(shown(hosts_by_pair(" hostA 1 ", "LSB_MCPU_HOSTS")) == "hostA:1 ");
  CHECK(shown(hosts_by_pair("hostA 4 hostB", "LSB_MCPU_HOSTS")) ==
        "LSB_MCPU_HOSTS: 'hostA 4 hostB' is not a list of hosts and numbers, as in: n1 4 n2 4");
  CHECK(shown(hosts_by_pair("hostA x", "LSB_MCPU_HOSTS")) == "LSB_MCPU_HOSTS: 'x' is no number of slots");
  for (const auto* bad : {"", "hostA 0", "hostA -1", "-x 4", "a;b 4", "hostA 99999999"}) {
    const auto hosts = hosts_by_pair(bad, "LSB_MCPU_HOSTS");
    REQUIRE_MESSAGE(!hosts.has_value(), bad);
    CHECK(hosts.error().message.starts_with("LSB_MCPU_HOSTS: "));
    CHECK_FALSE(hosts.error().hint.empty());
  }
}

TEST_CASE("Grid Engine writes host, slots, queue and processors; one line for each queue") {
  CHECK(shown(hosts_of_grid_engine(
            "node3 3 all.q@node3 UNDEFINED\nnode1 2 all.q@node1 <NULL>\n\nnode3 1 b.q@node3 0,1\n",
            "PE_HOSTFILE")) == "node3:3 node1:2 node3:1 ");
  CHECK(shown(hosts_of_grid_engine("node3\n", "PE_HOSTFILE")) == "PE_HOSTFILE:1: '' is no number of slots");
  CHECK(shown(hosts_of_grid_engine("n1 1 q u\nn2 many q u\n", "PE_HOSTFILE")) ==
        "PE_HOSTFILE:2: 'many' is no number of slots");
  CHECK(shown(hosts_of_grid_engine("\n", "PE_HOSTFILE")) == "PE_HOSTFILE: names no host");
}
