// What the environment of a worker says about its place in the world: the dialects of torchelastic,
// DeepSpeed, Horovod, PMI and Open MPI, and our own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/base/id.h"
#include "launcher/core/job_spec.h"
#include "launcher/core/placement.h"
#include "launcher/wire/facts.h"

namespace trainrun::core {

// What only the start finds out. Texts as the worker will see them; a dry run gives placeholders.
struct WorldFacts {
  std::string master_addr, master_port;  // of rank 0, as the other hosts reach it
  std::string rendezvous;                // host:port of the door on this rank's host
  std::string key_file;                  // the job's key, readable by the user alone
  std::string error_file;                // of this rank: where torch's @record writes
  std::string address;                   // of this rank's host, as the others reach it
  std::uint32_t restart_count = 0;       // how often the world was started anew
  bool all_new = true;           // no process of an earlier generation is in it: only then can MPI ranks meet
  bool pmix_everywhere = false;  // every host of the world has a helper that serves it
  bool agent_store = false;      // MASTER_ADDR and MASTER_PORT are of a store for torch that we hold
  std::string horovod_port{};    // of its rendezvous on this rank's host; empty: it is not offered
  std::string job_directory{};   // private, on this rank's host; empty: not known
  std::string gpus{};            // core::Share::gpus of this rank
};

// The variables of one rank that the job's environment (job.env) lacks or has otherwise, sorted by name.
// From weak to strong:
//   defaults        OMP_NUM_THREADS (this rank's share of the host's cores), PYTHONUNBUFFERED,
//                   TORCH_NCCL_ASYNC_ERROR_HANDLING, ROLE_NAME, MASTER_ADDR, MASTER_PORT, the interface
//                   variables of Gloo and NCCL: only where the user set nothing
//   GPUs            CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES with --gpus-per-rank
//   the part's -x   program.env
//   rank variables  nobody can set these: the rest of torchelastic's (MASTER_ADDR and MASTER_PORT too where
//                   the store for torch is ours), DeepSpeed's, those of PMI unless --compat is none,
//                   TRAINRUN_*
// GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME are --network-interface. Without it Gloo alone gets the interface
// of world.address, on a host whose own name resolves to 127.x, where Gloo would else offer that to the
// others; only in a world that has several hosts, or may have them later.
// Where Horovod's rendezvous is offered: what horovodrun gives its workers among the rank variables, and
// HOROVOD_CONTROLLER, HOROVOD_CPU_OPERATIONS and HOROVOD_GLOO_IFACE (of this host) among the defaults.
// Where PMIx is offered: Open MPI's own variables for scripts (OMPI_COMM_WORLD_RANK and the like) among the
// rank variables, and settings without which it takes itself for a world of one among the defaults.
// PMI_HOSTNAME, and what MPICH 4.0 reads in its place, are this host's address, in a world of several hosts.
// `facts` of the rank's host may be null: then what depends on them is a text in <> that gives the rule.
std::vector<EnvVar> worker_env(const JobSpec& job, const Placement& placement, Rank rank,
                               const WorldFacts& world, const wire::HostFacts* facts);

constexpr int pmi_descriptor = 20;  // io::spawn_fourth
// Whether the ranks find a PMI-1 server on this descriptor of theirs.
bool offers_pmi(const JobSpec& job, const WorldFacts& world);
// Whether helpers of the agents serve them by PMIx: on all hosts or on none, since ranks wait for each other.
bool offers_pmix(const JobSpec& job, const WorldFacts& world);

}  // namespace trainrun::core
