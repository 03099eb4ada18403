// The ranks of a group as a grid: hosts, and as many ranks on each. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trainrun::comm {

struct HostGrid {
  std::uint32_t hosts = 0, locals = 0;  // locals: ranks on each host
  std::uint32_t host = 0, local = 0;    // where this rank is
  // The group's ranks host by host; hosts in the order of their first rank, the ranks of a host in their own.
  std::vector<std::uint32_t> ranks{};

  [[nodiscard]] std::uint32_t rank_at(std::uint32_t of_host, std::uint32_t of_local) const {
    return ranks[of_host * locals + of_local];
  }
  // Of this rank's host, and of the ranks that have this one's place on their hosts.
  [[nodiscard]] std::vector<std::uint32_t> on_host() const;
  [[nodiscard]] std::vector<std::uint32_t> across() const;
};

// Nothing where there is no grid with two sides: all on one host, one rank a host, or hosts with more ranks
// than others. `hosts`: each rank's.
std::optional<HostGrid> grid_of(std::span<const std::string> hosts, std::uint32_t rank);

}  // namespace trainrun::comm
