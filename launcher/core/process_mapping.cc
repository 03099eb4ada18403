#include "launcher/core/process_mapping.h"

#include <fmt/format.h>

#include <cstdint>
#include <vector>

namespace trainrun::core {
namespace {

constexpr std::size_t most_blocks = 80;
constexpr std::size_t longest_value = 800;  // as agent/pmi1.h announces

struct Block {
  std::uint32_t first = 0, hosts = 0, ranks = 0;  // ranks on each of the hosts
};

}  // namespace

std::string process_mapping(const Placement& placement) {
  std::vector<Block> blocks;
  const auto& seats = placement.seats;
  for (std::size_t i = 0; i < seats.size();) {
    const auto host = seats[i].group_rank;
    std::uint32_t ranks = 0;
    while (i < seats.size() && seats[i].group_rank == host) ++i, ++ranks;
    const bool goes_on =
        !blocks.empty() && blocks.back().ranks == ranks && blocks.back().first + blocks.back().hosts == host;
    if (goes_on) {
      ++blocks.back().hosts;
    } else if (blocks.size() == most_blocks) {
      return {};
    } else {
      blocks.push_back({host, 1, ranks});
    }
  }
  std::string text = "(vector";
  for (const auto& block : blocks) text += fmt::format(",({},{},{})", block.first, block.hosts, block.ranks);
  text += ")";
  return text.size() <= longest_value ? text : std::string{};
}

}  // namespace trainrun::core
