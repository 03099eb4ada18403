#include "comm/backends/factory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "comm/backends/gloo/gloo_backend.h"
#include "comm/backends/shm/meeting.h"
#include "launcher/base/strings.h"

namespace trainrun::comm {
namespace {

Duration left_until(Deadline deadline) {
  return std::max<Duration>(deadline - std::chrono::steady_clock::now(), milliseconds(1));
}

std::uint32_t size_of(const Site& site) { return static_cast<std::uint32_t>(site.members.size()); }

bool on_one_host(const Site& site) {
  return std::all_of(site.members.begin(), site.members.end(),
                     [&](const auto& member) { return member.host == site.members.front().host; });
}

// One blob a rank, of which each reads those of its neighbours.
Outcome<Moved> connect(GlooBackend& backend, const Site& site) {
  const auto key = [&](auto rank) { return fmt::format("{}mesh/{}", site.scope, rank); };
  if (const auto put = site.client.put(key(site.rank), backend.blob()); !put)
    return tl::unexpected(failure_of(put.error()));
  std::vector<std::string> keys;
  for (const int rank : backend.neighbours()) keys.push_back(key(rank));
  const auto blobs = site.client.wait(std::move(keys), left_until(site.deadline));
  if (!blobs) {
    auto failure = failure_of(blobs.error());
    // Who of all ranks has not come this far; their blobs are not wanted.
    if (failure.status == TRC_TIMEOUT)
      if (const auto all = site.client.gather(site.scope + "mesh/", size_of(site), {}); !all)
        failure.missing = all.error().missing;
    return tl::unexpected(std::move(failure));
  }
  return backend.connect(*blobs, site.deadline);
}

Outcome<Draft> over_gloo(const Site& site) {
  auto listening =
      GlooBackend::listen(static_cast<int>(site.rank), static_cast<int>(size_of(site)), site.address);
  if (!listening)
    return fail(TRC_TRANSPORT,
                fmt::format("cannot listen on {}: {}", quoted(site.address), listening.error().text));
  auto* const backend = listening->get();
  return Draft{std::move(*listening), [backend, site] { return connect(*backend, site); }};
}

// The job's own directory is removed with the job, so a file there cannot be left behind. Where it is not in
// memory, the one that always is.
std::string folder_for_memory(const std::string& key_file) {
  const auto slash = key_file.rfind('/');
  return key_file.starts_with("/dev/shm/") ? key_file.substr(0, slash) : "/dev/shm";
}

}  // namespace

Outcome<Draft> make_backend(const Site& site) {
  if (!on_one_host(site)) {
    if (site.choice == BackendChoice::shm)
      return fail(TRC_UNSUPPORTED, "TRAINRUN_COMM_BACKEND=shm, but the ranks are not all on one host");
    return over_gloo(site);
  }
  ShmMeeting meeting{site.client, site.rank, size_of(site), site.deadline, site.scope};
  if (site.choice == BackendChoice::gloo) meeting.objection = "TRAINRUN_COMM_BACKEND=gloo";
  meeting.folder = folder_for_memory(site.key_file);
  auto met = meet_in_memory(meeting);
  if (!met) return tl::unexpected(met.error());
  if (met->backend) return Draft{std::move(met->backend)};
  if (site.choice == BackendChoice::shm)
    return fail(TRC_UNSUPPORTED,
                "TRAINRUN_COMM_BACKEND=shm, but the ranks cannot share memory: " + met->why_not);
  if (!met->objected && site.rank == 0)
    std::fprintf(stderr,
                 "trainrun: comm uses TCP on this host, since its ranks cannot share memory: %s\n"
                 "  try: TRAINRUN_COMM_BACKEND=gloo chooses this without a word\n",
                 met->why_not.c_str());
  return over_gloo(site);
}

}  // namespace trainrun::comm
