#include "launcher/agent/tcp_table.h"

#include <doctest/doctest.h>

#include <string>

namespace trainrun::agent {
namespace {

const std::string head =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";

std::string row(const std::string& local, const std::string& remote, const std::string& state, int inode) {
  return "   0: " + local + " " + remote + " " + state +
         " 00000000:00000000 00:00000000 00000000  1000        0 " + std::to_string(inode) + " 1 0\n";
}

using Ports = std::set<std::uint16_t>;

TEST_CASE("a process has to do with the port if it is connected to it, or listens on it") {
  const auto sockets =
      tcp_sockets(head + row("00000000:733C", "00000000:0000", "0A", 101) +  // 29500
                  row("0200000A:9C40", "0100000A:733C", "01", 102) +
                  row("0100000A:733C", "0200000A:9C40", "01", 103) +  // the listener's end
                  row("0200000A:9C41", "0100000A:733C", "02", 104) +  // still connecting
                  row("0200000A:9C42", "0100000A:733D", "01", 105) +
                  row("0200000A:9C43", "00000000:0000", "0A", 106) + "   6: torn 0100000A:733C 01\n");
  CHECK(sockets.size() == 6);
  CHECK(ports_of(sockets, {101, 103}, 29500).hosts);
  CHECK(ports_of(sockets, {101}, 29500).meets);
  CHECK(ports_of(sockets, {101, 103}, 29500).clients == 1);
  CHECK(ports_of(sockets, {101, 103}, 29500).reaches.empty());
  CHECK(ports_of(sockets, {102}, 29500).clients == 0);
  CHECK(ports_of(sockets, {102}, 29500).meets);
  CHECK_FALSE(ports_of(sockets, {102}, 29500).hosts);
  CHECK_FALSE(ports_of(sockets, {103, 104}, 29500).meets);
  const auto others = ports_of(sockets, {105, 106}, 29500);
  CHECK_FALSE(others.meets);
  CHECK(others.reaches == Ports{29501});
  CHECK(others.listens == Ports{0x9C43});
  CHECK(ports_of(sockets, {101}, 29501).listens == Ports{29500});
  CHECK(tcp_sockets("").empty());
}

TEST_CASE("a connection leaves traces when no process has it any more; a port that nobody came to does not") {
  const auto leaves = [](const std::string& rows) { return leaves_traces(tcp_sockets(head + rows), 29500); };
  CHECK(leaves(row("0200000A:9C40", "0100000A:733C", "06", 0)));
  CHECK(leaves(row("0100000A:733C", "0200000A:9C40", "06", 0)));
  CHECK(leaves(row("0200000A:9C40", "0100000A:733C", "01", 7)));
  CHECK_FALSE(leaves(row("00000000:733C", "00000000:0000", "0A", 7)));
  CHECK_FALSE(leaves(row("0200000A:9C40", "0100000A:733D", "06", 0)));
}

}  // namespace
}  // namespace trainrun::agent
