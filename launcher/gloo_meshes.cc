#include "launcher/gloo_meshes.h"

#include <algorithm>
#include <iterator>

#include "launcher/wire/frame.h"
#include "rendezvous/adapters/gloo_address.h"

namespace trainrun {
namespace {

// Of one host's ranks, each with one for each of the others or fewer, and as many of hosts that are gone; all
// of them go in one frame.
constexpr std::size_t most_addresses = std::size_t{64} << 10, address_cost = 24;
static_assert(2 * most_addresses * address_cost < wire::frame_limit / 2);

}  // namespace

void GlooMeshes::keep(HostIndex host, const std::string& value) {
  auto& known = by_host_[host];
  auto found = rendezvous::gloo_addresses(value);
  if (known.size() + found.size() > most_addresses) return;
  std::move(found.begin(), found.end(), std::back_inserter(known));
}

void GlooMeshes::host_gone(HostIndex host) {
  auto mesh = by_host_.extract(host);
  if (mesh.empty()) return;
  auto& addresses = mesh.mapped();
  addresses.resize(std::min(addresses.size(), most_addresses - lost_.size()));
  std::move(addresses.begin(), addresses.end(), std::back_inserter(lost_));
}

std::vector<std::pair<HostIndex, wire::BreakConnections>> GlooMeshes::take() {
  std::vector<std::pair<HostIndex, wire::BreakConnections>> orders;
  const auto lost = std::exchange(lost_, {});
  for (auto& [host, addresses] : std::exchange(by_host_, {})) {
    addresses.insert(addresses.end(), lost.begin(), lost.end());
    orders.emplace_back(host, wire::BreakConnections{std::move(addresses)});
  }
  return orders;
}

}  // namespace trainrun
