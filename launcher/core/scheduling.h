// Under which policy of Linux's scheduler a rank runs (--sched). Pure.
#pragma once

#include "launcher/core/job_spec.h"
#include "launcher/core/placement.h"
#include "launcher/wire/facts.h"

namespace trainrun::core {

// Whether a rank runs under SCHED_BATCH: its threads do not interrupt each other when they wake up. Gloo's
// event loop interrupts the thread that holds the lock for which it has woken, which costs more than the
// collective itself where ranks have no cores to spare. `automatic` takes it for ranks of Python on a host
// with no more usable cores than ranks, unless they have a GPU, which wants to be served at once, or an MPI,
// which is slower under it.
bool runs_in_batch(const JobSpec& job, const Seat& seat, const wire::HostFacts& facts);

// Whether the program is Python, as far as its words tell.
bool is_python(const Program& program);

}  // namespace trainrun::core
