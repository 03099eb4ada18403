// Where a rank that looks for the others stands.
#pragma once

#include <string>
#include <vector>

#include "comm/backends/backend.h"
#include "comm/environment.h"
#include "rendezvous/client.h"

namespace trainrun::comm {

// All have the same members.
struct Site {
  rendezvous::Client& client;
  const std::vector<rendezvous::Member>& members;
  std::uint32_t rank;   // among the members
  std::string scope;    // before the keys in the rendezvous; another one for each group of ranks
  std::string address;  // numeric, at which the others reach this rank
  BackendChoice choice;
  std::string key_file;
  Deadline deadline;
};

inline std::uint32_t size_of(const Site& site) { return static_cast<std::uint32_t>(site.members.size()); }
Duration left_until(Deadline deadline);  // at least a millisecond

}  // namespace trainrun::comm
