#include "launcher/core/process_mapping.h"

#include <doctest/doctest.h>

namespace trainrun::core {
namespace {

std::string mapping_of(const std::vector<std::uint32_t>& hosts) {
  Placement placement;
  for (const auto host : hosts) {
    Seat seat;
    seat.rank = {static_cast<std::uint32_t>(placement.seats.size())};
    seat.host = {host};
    placement.seats.push_back(seat);
  }
  placement.groups = number_seats(placement.seats);
  return process_mapping(placement);
}

TEST_CASE("hosts with the same number of ranks are one block") {
  CHECK(mapping_of({0}) == "(vector,(0,1,1))");
  CHECK(mapping_of({0, 0, 0, 0, 1, 1, 1, 1}) == "(vector,(0,2,4))");
  CHECK(mapping_of({0, 0, 0, 1}) == "(vector,(0,1,3),(1,1,1))");
  CHECK(mapping_of({0, 1, 2, 2}) == "(vector,(0,2,1),(2,1,2))");
}

TEST_CASE("one rank a host in turn is a block for each turn") {
  CHECK(mapping_of({0, 1, 0, 1}) == "(vector,(0,2,1),(0,2,1))");
  CHECK(mapping_of({0, 1, 0}) == "(vector,(0,2,1),(0,1,1))");
}

TEST_CASE("hosts are numbered as they come, whatever their place in the list is") {
  CHECK(mapping_of({5, 5, 2, 2}) == "(vector,(0,2,2))");
}

TEST_CASE("80 blocks can be told, 81 cannot") {
  std::vector<std::uint32_t> hosts;
  for (std::uint32_t i = 0; i < 80; ++i) {
    hosts.push_back(i);
    if (i % 2 == 0) hosts.push_back(i);
  }
  const auto most = mapping_of(hosts);
  CHECK(most.starts_with("(vector,(0,1,2),(1,1,1)"));
  CHECK(most.size() <= 800);
  hosts.push_back(80);
  hosts.push_back(80);
  CHECK(mapping_of(hosts).empty());
}

}  // namespace
}  // namespace trainrun::core
