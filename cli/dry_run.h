// --dry-run: what a start would do, from what is known here alone. Nobody is contacted.
//
// Values that only the start can know stand in <>, as in MASTER_PORT=<reserved on gpu1 at start>. Values of
// credentials, to judge as core/shown_words.h does, read <redacted>.
//
// The JSON is one object. Fields are only ever added while "schema" is 1.
//   schema       1
//   world_size   number of ranks of the first world; 0: not known before the start, since a discovery
//                tells the hosts, and then hosts[] and ranks[] are empty
//   programs[]   the parts of the line: np (ranks), argv[], directory, mpi {family ("openmpi", "mpich",
//                "none", "decided at start": its file is not here), guessed, library (libpmix, of the first)}
//   hosts[]      name (as written), slots, user, port, identity (empty, 0, empty: ssh's own choice),
//                ranks[] (rank numbers), remote_command (what the login shell there is given; empty: no
//                login)
//   map_by       "slot", "host", "ppr" or "rankfile"; ranks_per_host (0: the slots), oversubscribe
//   rank_by      null: as they are mapped; "slot" or "host"
//   binding      bind_to ("none", "core", "l3cache", "numa", "socket", "auto"), cpus_per_rank, gpus_per_rank
//   (0: not
//                given), rule (a sentence)
//   elastic      null: nothing is started anew; else on_failure ("auto", "restart-world",
//                "in-place"), min_np, max_np, spares, discovery {kind ("none", "script", "file", "dns",
//                "slurm"), source, default_slots, interval}, reset_limit {count, window (null: the whole
//                job)}, cooldown {min, max}, elastic_timeout, settle, hang_timeout (null: none), leave_signal
//                ("TERM"); times in seconds
//   preload      null, "auto" or the names of --preload
//   inherits     true: a job on this host alone, env holds the caller's whole environment
//   not_forwarded[]  names of the caller's variables that stay here
//   ranks[]      rank, local_rank, local_size, group_rank, cross_rank, cross_size, host (name), program
//                (which of programs[]), argv[], directory, env{} (all that we set or pass on), at_start[]
//                (names in env whose value is in <>)
#pragma once

#include <functional>
#include <string>

#include "cli/dry_run_mpi.h"
#include "launcher/core/job_spec.h"
#include "launcher/core/placement.h"

namespace trainrun::cli {

// What is run on a host to start the agent there; empty for a host that needs no login.
using RemoteCommand = std::function<std::string(const Host&)>;

// For people: hosts, ranks, environments; ends with a newline. A placement without seats: the hosts are not
// known yet.
std::string dry_run_text(const JobSpec& job, const core::Placement& placement,
                         const RemoteCommand& remote_command, const ProgramsMpi& mpi = {});

constexpr int dry_run_schema = 1;  // grows when a key changes its meaning

// For programs, as above; indented, ends with a newline. Bytes that are not UTF-8 become U+FFFD.
std::string dry_run_json(const JobSpec& job, const core::Placement& placement,
                         const RemoteCommand& remote_command, const ProgramsMpi& mpi = {});

}  // namespace trainrun::cli
