#include "launcher/core/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace trainrun::core {

std::uint32_t number_seats(std::vector<Seat>& seats) {
  struct OfHost {
    std::uint32_t size = 0, group_rank = 0;
    std::vector<std::uint32_t> cross_ranks{};  // by local rank
  };
  std::map<HostIndex, OfHost> hosts;
  std::vector<HostIndex> order;  // of their first rank
  for (auto& seat : seats) {
    auto& host = hosts[seat.host];
    if (host.size == 0) order.push_back(seat.host);
    seat.local_rank = seat.slot = host.size++;
  }

  std::uint32_t groups = 0;
  std::vector<std::uint32_t> cross_sizes;  // by local rank: hosts seen so far that have such a rank
  for (const auto index : order) {
    auto& host = hosts.at(index);
    host.group_rank = groups++;
    cross_sizes.resize(std::max<std::size_t>(cross_sizes.size(), host.size), 0);
    for (std::uint32_t local = 0; local < host.size; ++local) {
      host.cross_ranks.push_back(cross_sizes[local]++);
    }
  }
  for (auto& seat : seats) {
    const auto& host = hosts[seat.host];
    seat.local_size = host.size;
    seat.group_rank = host.group_rank;
    seat.cross_rank = host.cross_ranks[seat.local_rank];
    seat.cross_size = cross_sizes[seat.local_rank];
  }
  return groups;
}

std::string name_with_ranks(const std::string& host, const std::vector<Rank>& ranks) {
  std::string list;
  for (std::size_t first = 0, last = 0; first < ranks.size(); first = last + 1) {
    last = first;
    while (last + 1 < ranks.size() && ranks[last + 1].value == ranks[last].value + 1) ++last;
    if (!list.empty()) list += ",";
    list += fmt::format("{}", ranks[first].value);
    if (last > first) list += fmt::format("-{}", ranks[last].value);
  }
  if (list.empty()) return host;
  return fmt::format("{} (rank{} {})", host, ranks.size() == 1 ? "" : "s", list);
}

}  // namespace trainrun::core
