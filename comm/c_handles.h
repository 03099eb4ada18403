// What the handles of the C interface are, and how a failure gets across it. Nothing is thrown across.
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "comm/environment.h"
#include "comm/home_process.h"
#include "comm/lanes.h"
#include "comm/trainrun_comm.h"
#include "comm/world.h"

struct trc_world;
struct trc_group {
  trainrun::comm::Group* group;
  std::uint32_t generation = 0;
  trc_world* world = nullptr;
  trainrun::comm::HomeProcess home{};
  std::shared_ptr<trainrun::comm::Lanes> lanes = std::make_shared<trainrun::comm::Lanes>();
  bool left = false;  // by this rank; with the world's mutex
};
struct trc_world {
  trainrun::comm::World* world;
  trc_group group;
  trainrun::comm::World::Owner owned{};  // null in an elastic membership
  std::mutex mutex{};
  std::vector<std::unique_ptr<trc_group>> groups{};  // of some of the ranks

  // Of all groups: waits for the works that were started; and ends them, false if one still runs.
  void drain();
  bool close_lanes(trainrun::Duration within);
  // Of the groups that this rank has left, those that nobody uses any more are given back. Waits for no rank.
  void give_back_left();
  std::mutex giving_back{};  // by one thread at a time
};

namespace trainrun::comm {

// Keeps it for trc_last_error of this thread.
trc_status remember(const Failure& failure);
// How long a world that is freed gives the works that run.
constexpr Duration works_at_the_end = milliseconds(300);
// What this thread was told last.
Failure last_failure();
trc_status invalid(const char* message);
// Of a handle that another process made, whose copy this one has by a fork.
trc_status not_here();
// What a forked child does instead of freeing its copy: nothing. It stays reachable, for leak checkers.
void abandon(void* handle);
Outcome<Environment> environment_for(const trc_options* options);

// The handle of a group that was made, which belongs to the world; none where this rank is none of its
// members.
Outcome<void> hand_out(const Outcome<Group*>& made, trc_world* world, trc_group** group);

// Runs what may throw for lack of memory, or because of a fault of ours.
template <class Work>
trc_status guarded(Work work, std::uint32_t generation = 0) {
  Failure failure;
  try {
    const Outcome<void> outcome = work();
    if (outcome) return TRC_OK;
    failure = outcome.error();
  } catch (const std::exception& error) {
    failure.message = error.what();
  }
  if (failure.generation == 0) failure.generation = generation;
  return remember(failure);
}

// The same for what only the process that made the handle may do, in the generation of its world.
template <class Work>
trc_status guarded(const trc_group& group, Work work) {
  return group.home.here() ? guarded(std::move(work), group.generation) : not_here();
}

}  // namespace trainrun::comm
