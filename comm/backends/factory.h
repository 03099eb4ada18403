// Which backend a world of several ranks gets: memory where all of them are on one host and can share it,
// else Gloo.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/backends/backend.h"
#include "comm/environment.h"
#include "comm/failure.h"
#include "rendezvous/client.h"

namespace trainrun::comm {

// Where a rank that looks for the others stands. All have the same members.
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

struct Draft {
  std::unique_ptr<Backend> backend;
  // Connects it, if it is not yet; abort() of the backend ends that too. Fails with the rendezvous, or is
  // broken.
  std::function<Outcome<Moved>()> connect{};
};

// All ranks of the world call it, and get the same kind.
Outcome<Draft> make_backend(const Site& site);

}  // namespace trainrun::comm
