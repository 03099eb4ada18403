// The placement of the next generation of an elastic job. The order of `rooms` is the order of the hosts;
// pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "launcher/core/job_spec.h"
#include "launcher/core/placement.h"

namespace trainrun::core {

// A host that may be used, and for how many workers.
struct Room {
  HostIndex host;
  int slots = 0;
  // Slots that somebody still holds who has no place in the next world: nobody sits there, and they count.
  std::vector<std::uint32_t> busy{};

  [[nodiscard]] int free() const { return std::max(0, slots - static_cast<int>(busy.size())); }
};

// How many ranks a world on so many slots has; 0 when they cannot hold the smallest one. Up to -np ranks
// every slot is used; beyond that --spares are left free.
int world_size_on(const JobSpec& job, int slots);
// How many ranks a host takes: its slots, or what ppr (`--map-by ppr:N:host` and the like) makes of them.
int slots_of(const JobSpec& job, const Host& host);

// All workers start anew. Ranks keep their order and host where that still has room; the place of one that
// has not is taken by a free slot, and what then is left over is closed up (or added at the end). The ranks
// of a host follow each other, unless the job was mapped by host. `before` is empty for the first world.
Placement replan_all(const JobSpec& job, Generation generation, const std::vector<Seat>& before,
                     const std::vector<Room>& rooms, int size);

// of_horovod: ranks of one host follow each other in the order of slots, so that who stays keeps its local
// rank. A host whose first slot has a survivor comes first; where there is none, a survivor changes places
// with those before it, since rank 0 has to be one.
enum class Numbering : std::uint8_t { as_they_come, of_horovod };

// `survivors` keep their host, slot and order and have the lowest ranks. Newcomers follow: first in the slots
// that are `vacated`, then in free ones. With more survivors than `size` the last are left out. A host gets
// no newcomer beyond its slots, but with --oversubscribe.
Placement replan_around(const JobSpec& job, Generation generation, const std::vector<Seat>& survivors,
                        const std::vector<Seat>& vacated, const std::vector<Room>& rooms, int size,
                        Numbering numbering = Numbering::as_they_come);

}  // namespace trainrun::core
