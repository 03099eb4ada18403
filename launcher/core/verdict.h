// What a job's end is told to be, beyond its kind and its cause. Pure.
#pragma once

#include "launcher/base/time.h"
#include "launcher/core/job_event.h"
#include "launcher/core/outcome.h"
#include "launcher/core/world.h"

namespace trainrun::core {

// What became of the members, but for the one that is the cause: fills `others`, `also_failed` and
// `finished`.
void count_others(const World& world, Outcome& verdict);

// What the members reported, at that time, is no consequence of the failure: they did before it, or reported
// others than the one that failed first.
bool says_more(const WorldBroken& broken, Instant at, const Outcome& verdict);

// Ranks of MPI end by themselves soon after what they exchange by is gone, and are not to blame for it.
bool ended_for_lack_of_exchange(const Failure& failure, Instant exchange_lost);

}  // namespace trainrun::core
