#include "comm/backends/factory.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdio>

#include "comm/backends/gloo/gloo_meeting.h"
#include "comm/backends/hier/hier_meeting.h"
#include "comm/backends/shm/meeting.h"

namespace trainrun::comm {

Duration left_until(Deadline deadline) {
  return std::max<Duration>(deadline - std::chrono::steady_clock::now(), milliseconds(1));
}

namespace {

bool on_one_host(const Site& site) {
  return std::all_of(site.members.begin(), site.members.end(),
                     [&](const auto& member) { return member.host == site.members.front().host; });
}

Outcome<Draft> over_gloo(const Site& site) {
  auto listening = listen_over_gloo(site, place_of_all(site));
  if (!listening) return tl::unexpected(listening.error());
  auto* const backend = listening->get();
  return Draft{std::move(*listening), [backend, site]() -> Outcome<Moved> {
                 if (auto told = tell_address(*backend, site, place_of_all(site)); !told)
                   return tl::unexpected(told.error());
                 return connect_over_gloo(*backend, site, place_of_all(site));
               }};
}

// The job's own directory is removed with the job, so a file there cannot be left behind. Where it is not in
// memory, the one that always is.
std::string folder_for_memory(const std::string& key_file) {
  const auto slash = key_file.rfind('/');
  return key_file.starts_with("/dev/shm/") ? key_file.substr(0, slash) : "/dev/shm";
}

// Said once by a process, for the first group, where nobody wanted it so.
Outcome<Draft> without_memory(const Site& site, bool objected, const std::string& why_not) {
  static std::atomic<bool> said{false};
  if (!objected && site.rank == 0 && !said.exchange(true))
    std::fprintf(stderr,
                 "trainrun: comm uses TCP on this host, since its ranks cannot share memory: %s\n"
                 "  try: TRAINRUN_COMM_BACKEND=gloo chooses this without a word\n",
                 why_not.c_str());
  return over_gloo(site);
}

Outcome<Draft> on_hosts(const Site& site, const std::string& objection) {
  if (site.choice == BackendChoice::shm)
    return fail(TRC_UNSUPPORTED, "TRAINRUN_COMM_BACKEND=shm, but the ranks are not all on one host");
  std::vector<std::string> hosts;
  for (const auto& member : site.members) hosts.push_back(member.host);
  const auto grid = grid_of(hosts, site.rank);
  if (!grid) return over_gloo(site);
  auto met = meet_on_hosts(site, *grid, objection, folder_for_memory(site.key_file));
  if (!met) return tl::unexpected(met.error());
  if (!met->backend) return without_memory(site, met->objected, met->why_not);
  return Draft{std::move(met->backend), std::move(met->connect)};
}

}  // namespace

Outcome<Draft> make_backend(const Site& site) {
  const std::string objection = site.choice == BackendChoice::gloo ? "TRAINRUN_COMM_BACKEND=gloo" : "";
  if (!on_one_host(site)) return on_hosts(site, objection);
  ShmMeeting meeting{site.client, site.rank, size_of(site), site.deadline, site.scope};
  meeting.objection = objection;
  meeting.folder = folder_for_memory(site.key_file);
  auto met = meet_in_memory(meeting);
  if (!met) return tl::unexpected(met.error());
  if (met->backend) return Draft{std::move(met->backend)};
  if (site.choice == BackendChoice::shm)
    return fail(TRC_UNSUPPORTED,
                "TRAINRUN_COMM_BACKEND=shm, but the ranks cannot share memory: " + met->why_not);
  return without_memory(site, met->objected, met->why_not);
}

}  // namespace trainrun::comm
