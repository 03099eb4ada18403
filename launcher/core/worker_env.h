// What the environment of a worker says about its place in the world: the dialects of torchelastic and
// DeepSpeed, and our own.
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
};

// The variables of one rank that the job's environment (job.env) lacks or has otherwise, sorted by name.
// From weak to strong:
//   defaults        OMP_NUM_THREADS (this rank's share of the host's cores), PYTHONUNBUFFERED,
//                   [TORCH_]NCCL_ASYNC_ERROR_HANDLING, ROLE_NAME, MASTER_ADDR, MASTER_PORT, the interface
//                   variables of Gloo and NCCL: only where the user set nothing
//   GPUs            CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES with --gpus-per-rank
//   the part's -x   program.env
//   rank variables  nobody can set these: the rest of torchelastic's, DeepSpeed's, TRAINRUN_*
// GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME are --network-interface. Without it Gloo alone gets the interface
// of world.address, on a host whose own name resolves to 127.x, where Gloo would else offer that to the
// others; only in a world of several hosts.
// `facts` of the rank's host may be null: then what depends on them is a text in <> that gives the rule.
std::vector<EnvVar> worker_env(const JobSpec& job, const Placement& placement, Rank rank,
                               const WorldFacts& world, const wire::HostFacts* facts);

// Whether every rank has this variable from us, whatever anybody gave it: the rank variables above, and the
// agent's TRAINRUN_WORKER.
bool is_always_set(std::string_view name);

}  // namespace trainrun::core
