// Which ranks exchange bytes directly. Every operation over Gloo moves its data between ranks whose distance
// is a power of two, around the ring of all ranks, so a rank needs few connections however large the world.
#pragma once

#include <vector>

namespace trainrun::comm {

// Ascending; `other` is among those of `rank` exactly when `rank` is among those of `other`. At most two for
// each power of two below `size`, so up to five ranks everybody is connected with everybody.
std::vector<int> neighbours_of(int rank, int size);

}  // namespace trainrun::comm
