// How the ranks of a group find each other's Gloo: each leaves its addresses at the rendezvous.
#pragma once

#include <memory>
#include <vector>

#include "comm/backends/gloo/gloo_backend.h"
#include "comm/backends/site.h"
#include "comm/failure.h"

namespace trainrun::comm {

// Some of a site's members that have a mesh of their own; in the order of their ranks in it.
struct MeshPlace {
  std::uint32_t rank, size;
  std::string prefix;  // of its keys
};
inline MeshPlace place_of_all(const Site& site) { return {site.rank, size_of(site), site.scope + "mesh/"}; }

Outcome<std::unique_ptr<GlooBackend>> listen_over_gloo(const Site& site, const MeshPlace& place);
Outcome<void> tell_address(const GlooBackend& backend, const Site& site, const MeshPlace& place);
// After tell_address(). Fails with the rendezvous, where `missing` has those of the mesh that did not come,
// as the site numbers them (`members`; all if empty), and the message names one; or is broken, and says to
// whom there is no connection.
Outcome<Moved> connect_over_gloo(GlooBackend& backend, const Site& site, const MeshPlace& place,
                                 const std::vector<std::uint32_t>& members = {});

}  // namespace trainrun::comm
