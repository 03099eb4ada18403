// What the handles of the C interface are, and how a failure gets across it. Nothing is thrown across.
#pragma once

#include <exception>
#include <memory>
#include <string>

#include "comm/environment.h"
#include "comm/trainrun_comm.h"
#include "comm/world.h"

struct trc_group {
  trainrun::comm::Group* group;
};
struct trc_world {
  trainrun::comm::World* world;
  trc_group group;
  std::unique_ptr<trainrun::comm::World> owned{};  // null in an elastic membership
};

namespace trainrun::comm {

// Keeps it for trc_last_error of this thread.
trc_status remember(const Failure& failure);
// What this thread was told last.
Failure last_failure();
trc_status invalid(const char* message);
Outcome<Environment> environment_for(const trc_options* options);

// Runs what may throw for lack of memory, or because of a fault of ours.
template <class Work>
trc_status guarded(Work work) {
  Failure failure;
  try {
    const Outcome<void> outcome = work();
    if (outcome) return TRC_OK;
    failure = outcome.error();
  } catch (const std::exception& error) {
    failure.message = error.what();
  }
  return remember(failure);
}

}  // namespace trainrun::comm
