#include "comm/backends/hier/host_grid.h"

#include <algorithm>

namespace trainrun::comm {

std::vector<std::uint32_t> HostGrid::on_host() const {
  const auto begin = ranks.begin() + static_cast<std::ptrdiff_t>(host) * locals;
  return {begin, begin + locals};
}

std::vector<std::uint32_t> HostGrid::across() const {
  std::vector<std::uint32_t> found;
  for (std::uint32_t other = 0; other < hosts; ++other) found.push_back(rank_at(other, local));
  return found;
}

std::optional<HostGrid> grid_of(std::span<const std::string> hosts, std::uint32_t rank) {
  std::vector<std::string> names;
  std::vector<std::vector<std::uint32_t>> members;
  for (std::uint32_t other = 0; other < hosts.size(); ++other) {
    const auto found = std::find(names.begin(), names.end(), hosts[other]);
    const auto at = static_cast<std::size_t>(found - names.begin());
    if (found == names.end()) {
      names.push_back(hosts[other]);
      members.emplace_back();
    }
    members[at].push_back(other);
  }
  HostGrid grid;
  grid.hosts = static_cast<std::uint32_t>(members.size());
  grid.locals = static_cast<std::uint32_t>(members.front().size());
  if (grid.hosts < 2 || grid.locals < 2) return std::nullopt;
  for (std::uint32_t host = 0; host < grid.hosts; ++host) {
    if (members[host].size() != grid.locals) return std::nullopt;
    for (std::uint32_t local = 0; local < grid.locals; ++local) {
      if (members[host][local] == rank) {
        grid.host = host;
        grid.local = local;
      }
      grid.ranks.push_back(members[host][local]);
    }
  }
  return grid;
}

}  // namespace trainrun::comm
