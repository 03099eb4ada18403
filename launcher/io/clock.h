// The clock of this process's loop. It leaves out the time for which the process stood still (^Z, SIGSTOP, a
// frozen control group): no deadline passes while nobody could do what it asks for, and no silence counts
// that nobody could hear.
//
// Who stops itself says so. Any other stop shows as a gap: the loop beats four times a second, and a beat
// that is late by more than half a second was a stop from when it was due. A callback that holds the loop up
// for so long is one too. Until Loop::leave_out_stops() is called there are no stops: time is the kernel's.
//
// Thread-safe, all of it.
#pragma once

#include <utility>

#include "launcher/base/time.h"

namespace trainrun::io {

// The kernel's monotonic clock: what --timeout counts, and what agents tell.
Instant real_now();
// Moments of that clock on ours, and back: see Stops.
Instant running_at(Instant real);
Instant real_at(Instant running);
// The process has just been stopped, since `from` (real).
void stood_still(Instant from);
// The latest stop, real; two equal moments when there was none.
std::pair<Instant, Instant> last_stop();
// In a fork, whose loop does not beat: its clock is the kernel's, and knows of no stops.
void forget_stops();

}  // namespace trainrun::io
