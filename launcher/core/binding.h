// What of a host's hardware each of its ranks may use.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/base/error.h"
#include "launcher/core/job_spec.h"
#include "launcher/core/ranks.h"
#include "launcher/wire/facts.h"

namespace trainrun::core {

// The logical CPUs for one rank of a host, ascending; empty: no binding.
//   core          cpus_per_rank cores (1 if not given) of its own, with all their hardware threads
//   automatic     see binding_of(); not bound where the host does not tell its cores
//   l3cache, numa, socket  a whole one of these, shared by the ranks that fall on it; with cpus_per_rank that
//                 many cores of its own inside one
// Ranks are spread over the NUMA nodes (sockets for `socket`) as evenly as their cores allow, neighbours
// staying together. Where ranks are counted by parts of a host (--map-by ppr:N:socket), each is bound inside
// its own, or to what holds that; a host with another number of them than job.per_part says is an error.
// An Error (Code::usage, without the host's name) counts what is missing.
Result<std::vector<std::uint32_t>> cpus_for(const JobSpec& job, const wire::HostFacts& facts,
                                            std::uint32_t local_rank, std::uint32_t local_size);

// The same for a seat of a world, `slots` being those of its host; a line of --rankfile that names cores
// takes precedence.
Result<std::vector<std::uint32_t>> cpus_of(const JobSpec& job, const wire::HostFacts& facts, const Seat& seat,
                                           std::uint32_t slots);

// Whether it takes more of a host's CPUs than their number to place and bind its ranks.
bool needs_topology(const JobSpec& job);

// What --bind-to auto comes to on a host with so many ranks of the job.
BindTo binding_of(const JobSpec& job, const wire::HostFacts& facts, std::uint32_t local_size);

// "CPUs 0,32: 1 of 16 cores" of what cpus_for() gave; "not bound" for none.
std::string binding_words(const std::vector<std::uint32_t>& cpus, const wire::HostFacts& facts);

// Physical cores that may be used: those of the affinity mask, at most the cgroup's quota rounded up; at
// least 1.
std::uint32_t usable_cores(const wire::HostFacts& facts);

// --gpus-per-rank as CUDA_VISIBLE_DEVICES wants it: this rank's part of the user's own list
// (CUDA_ or HIP_VISIBLE_DEVICES in the job's environment) or of 0, 1, 2, ...; empty: all are visible. A list
// that is too short gives fewer, which gpus_suffice() tells beforehand.
std::string visible_gpus(const JobSpec& job, std::uint32_t local_rank);

// Whether the host has the GPUs that its ranks are to get. An Error (Code::usage, without the host's name)
// counts what is missing.
Result<void> gpus_suffice(const JobSpec& job, const wire::HostFacts& facts, std::uint32_t local_size);

// Whether the host lets so many processes run at all. An Error (Code::try_again, without the host's name)
// says which limit forbids it.
Result<void> processes_suffice(const wire::HostFacts& facts, std::uint32_t ranks);

// Whether each of a host's slots can have a process, and the cores and GPUs that its rank is to get, when
// there are so many. Errors as above.
Result<void> slots_suit(const JobSpec& job, const wire::HostFacts& facts, std::uint32_t slots);

}  // namespace trainrun::core
