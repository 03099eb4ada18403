#include "host-discovery/machines.h"

namespace trainrun::hosts {

std::optional<HostIndex> Machines::note(HostIndex host, const std::string& place) {
  forget(host);
  if (place.empty()) return std::nullopt;
  const auto [there, alone] = hosts_.try_emplace(place, host);
  if (!alone) return there->second;
  places_.emplace(host, place);
  return std::nullopt;
}

void Machines::forget(HostIndex host) {
  const auto there = places_.find(host);
  if (there == places_.end()) return;
  hosts_.erase(there->second);
  places_.erase(there);
}

}  // namespace trainrun::hosts
