#include "comm/backends/gloo/gloo_meeting.h"

#include <fmt/format.h>

#include <utility>

#include "launcher/base/fault.h"
#include "launcher/base/strings.h"

namespace trainrun::comm {

Outcome<std::unique_ptr<GlooBackend>> listen_over_gloo(const Site& site, const MeshPlace& place) {
  auto listening =
      GlooBackend::listen(static_cast<int>(place.rank), static_cast<int>(place.size), site.address);
  if (!listening)
    return fail(TRC_TRANSPORT,
                fmt::format("cannot listen on {}: {}", quoted(site.address), listening.error().text));
  return std::move(*listening);
}

// One blob a rank, of which each reads those of its neighbours.
Outcome<Moved> connect_over_gloo(GlooBackend& backend, const Site& site, const MeshPlace& place,
                                 const std::vector<std::uint32_t>& members) {
  const auto key = [&](auto rank) { return fmt::format("{}{}", place.prefix, rank); };
  if (const auto put = site.client.put(key(place.rank), backend.blob()); !put)
    return tl::unexpected(failure_of(put.error()));
  std::vector<std::string> keys;
  for (const int rank : backend.neighbours()) keys.push_back(key(rank));
  const auto blobs = site.client.wait(std::move(keys), left_until(site.deadline));
  if (blobs) {
    static_cast<void>(fault::point("comm.connect"));
    return backend.connect(*blobs, site.deadline);
  }
  auto failure = failure_of(blobs.error());
  // Who of all ranks has not come this far; their blobs are not wanted.
  if (failure.status == TRC_TIMEOUT)
    if (const auto all = site.client.gather(place.prefix, place.size, {}); !all) {
      failure.missing = all.error().missing;
      if (!members.empty())
        for (auto& rank : failure.missing) rank = members.at(rank);
    }
  return tl::unexpected(std::move(failure));
}

}  // namespace trainrun::comm
