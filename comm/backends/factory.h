// Which backend a world of several ranks gets: memory where all of them are on one host and can share it,
// memory and Gloo where there are as many on each of several hosts, else Gloo.
#pragma once

#include <functional>
#include <memory>

#include "comm/backends/backend.h"
#include "comm/backends/site.h"
#include "comm/failure.h"

namespace trainrun::comm {

struct Draft {
  std::unique_ptr<Backend> backend;
  // Connects it, if it is not yet; abort() of the backend ends that too. Fails with the rendezvous, or is
  // broken.
  std::function<Outcome<Moved>()> connect{};
};

// All ranks of the world call it, and get the same kind.
Outcome<Draft> make_backend(const Site& site);

}  // namespace trainrun::comm
