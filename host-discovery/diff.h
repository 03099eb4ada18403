// What is different between two answers.
#pragma once

#include <vector>

#include "host-discovery/host.h"

namespace trainrun::hosts {

struct SlotChange {
  Host host;  // as it is now
  int before = 0;

  friend bool operator==(const SlotChange&, const SlotChange&) = default;
};

// A host is the same when name, user and port are (host_key.h). Each list is in the order of the set it is
// from.
struct HostChanges {
  std::vector<Host> added, removed;
  std::vector<SlotChange> resized;

  [[nodiscard]] bool empty() const { return added.empty() && removed.empty() && resized.empty(); }
  friend bool operator==(const HostChanges&, const HostChanges&) = default;
};

HostChanges diff(const HostSet& before, const HostSet& after);

}  // namespace trainrun::hosts
