#include "comm/backends/gloo/neighbours.h"

#include <set>

namespace trainrun::comm {

std::vector<int> neighbours_of(int rank, int size) {
  std::set<int> found;
  for (int step = 1; step < size; step *= 2) {
    found.insert((rank + step) % size);
    found.insert((rank + size - step) % size);
  }
  return {found.begin(), found.end()};
}

}  // namespace trainrun::comm
