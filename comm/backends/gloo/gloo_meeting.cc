#include "comm/backends/gloo/gloo_meeting.h"

#include <fmt/format.h>

#include <utility>

#include "launcher/base/fault.h"
#include "launcher/base/strings.h"

namespace trainrun::comm {
namespace {

// "rank 3 on host1".
std::string words_of(const rendezvous::Member& member) {
  return fmt::format("rank {}{}", member.rank, member.host.empty() ? "" : " on " + member.host);
}

}  // namespace

Outcome<std::unique_ptr<GlooBackend>> listen_over_gloo(const Site& site, const MeshPlace& place) {
  auto listening =
      GlooBackend::listen(static_cast<int>(place.rank), static_cast<int>(place.size), site.address);
  if (!listening)
    return fail(TRC_TRANSPORT,
                fmt::format("cannot listen on {}: {}", quoted(site.address), listening.error().text));
  return std::move(*listening);
}

// One blob a rank, of which each reads those of its neighbours.
Outcome<void> tell_address(const GlooBackend& backend, const Site& site, const MeshPlace& place) {
  const auto put = site.client.put(fmt::format("{}{}", place.prefix, place.rank), backend.blob());
  if (!put) return tl::unexpected(failure_of(put.error()));
  return {};
}

Outcome<Moved> connect_over_gloo(GlooBackend& backend, const Site& site, const MeshPlace& place,
                                 const std::vector<std::uint32_t>& members) {
  std::vector<std::string> keys;
  for (const int rank : backend.neighbours()) keys.push_back(fmt::format("{}{}", place.prefix, rank));
  const auto blobs = site.client.wait(std::move(keys), left_until(site.deadline));
  if (blobs) {
    static_cast<void>(fault::point("comm.connect"));
    auto connected = backend.connect(*blobs, site.deadline);
    if (connected) return connected;
    const auto with = static_cast<std::uint32_t>(backend.connects_with());
    const auto member = members.empty() ? with : members.at(with);
    const bool late = std::chrono::steady_clock::now() >= site.deadline;
    return Moved(tl::unexpected(Broken{fmt::format("no connection to {}{}", words_of(site.members[member]),
                                                   late ? std::string() : ": " + connected.error().text),
                                       member}));
  }
  auto failure = failure_of(blobs.error());
  // Who of all ranks has not come this far; their blobs are not wanted.
  if (failure.status == TRC_TIMEOUT) {
    failure.message.clear();
    if (const auto all = site.client.gather(place.prefix, place.size, {}); !all) {
      failure.missing = all.error().missing;
      if (!members.empty())
        for (auto& rank : failure.missing) rank = members.at(rank);
      if (!failure.missing.empty())
        failure.message = "no address of " + words_of(site.members[failure.missing.front()]);
      if (failure.missing.size() > 1)
        failure.message += fmt::format(" and {} more", failure.missing.size() - 1);
    }
  }
  return tl::unexpected(std::move(failure));
}

}  // namespace trainrun::comm
