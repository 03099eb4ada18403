#include "comm/backends/hier/hier_meeting.h"

#include <fmt/format.h>

#include <utility>

#include "comm/backends/gloo/gloo_meeting.h"
#include "comm/backends/shm/meeting.h"

namespace trainrun::comm {
namespace {

constexpr std::string_view yes = "yes";
constexpr std::string_view objection_mark = "objection ";

// Who is missing among some of the ranks, by the numbers that they have in the group.
Failure renamed(Failure failure, const std::vector<std::uint32_t>& ranks) {
  for (auto& rank : failure.missing) rank = ranks.at(rank);
  return failure;
}

std::string answer_of(const ShmMet& met) {
  if (met.backend) return std::string(yes);
  return (met.objected ? std::string(objection_mark) : std::string()) + met.why_not;
}

}  // namespace

Outcome<HierMet> meet_on_hosts(const Site& site, const HostGrid& grid, const std::string& objection,
                               const std::string& folder) {
  ShmMeeting meeting{site.client, grid.local, grid.locals, site.deadline,
                     fmt::format("{}host/{}/", site.scope, grid.host)};
  meeting.objection = objection;
  meeting.folder = folder;
  meeting.threads = 2;  // its own and Gloo's
  auto met = meet_in_memory(meeting);
  if (!met) return tl::unexpected(renamed(met.error(), grid.on_host()));

  const auto prefix = site.scope + "hosts/";
  if (grid.local == 0)
    if (const auto put = site.client.put(fmt::format("{}{}", prefix, grid.host), answer_of(*met)); !put)
      return tl::unexpected(failure_of(put.error()));
  const auto answers = site.client.gather(prefix, grid.hosts, left_until(site.deadline));
  if (!answers) {
    std::vector<std::uint32_t> firsts;
    for (std::uint32_t host = 0; host < grid.hosts; ++host) firsts.push_back(grid.rank_at(host, 0));
    return tl::unexpected(renamed(failure_of(answers.error()), firsts));
  }
  for (std::uint32_t host = 0; host < grid.hosts; ++host) {
    std::string_view said = (*answers)[host];
    if (said == yes) continue;
    HierMet not_met;
    not_met.objected = said.starts_with(objection_mark);
    if (not_met.objected) said.remove_prefix(objection_mark.size());
    not_met.why_not = fmt::format("{}: {}", site.members[grid.rank_at(host, 0)].host, said);
    return not_met;
  }

  const MeshPlace beside{grid.host, grid.hosts, fmt::format("{}across/{}/", site.scope, grid.local)};
  auto across = listen_over_gloo(site, beside);
  if (!across) return tl::unexpected(across.error());
  auto flat = listen_over_gloo(site, place_of_all(site));
  if (!flat) return tl::unexpected(flat.error());
  HierMet hier;
  hier.backend =
      std::make_unique<HierBackend>(grid, std::move(met->backend), std::move(*across), std::move(*flat));
  // Both addresses first: who fails to connect in one mesh is not taken for one that has no address. Then the
  // mesh of all, in which everybody sees who does not connect.
  hier.connect = [backend = hier.backend.get(), site, beside, column = grid.across()]() -> Outcome<Moved> {
    if (auto told = tell_address(backend->across(), site, beside); !told) return tl::unexpected(told.error());
    if (auto told = tell_address(backend->flat(), site, place_of_all(site)); !told)
      return tl::unexpected(told.error());
    auto connected = connect_over_gloo(backend->flat(), site, place_of_all(site));
    if (!connected || !*connected) return connected;
    return connect_over_gloo(backend->across(), site, beside, column);
  };
  return hier;
}

}  // namespace trainrun::comm
