#include "launcher/core/worker_env.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "launcher/core/binding.h"
#include "launcher/core/env_var.h"

namespace trainrun::core {
namespace {

using Env = std::map<std::string, std::string, std::less<>>;

constexpr std::string_view always_set[] = {
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK",
    "ROLE_WORLD_SIZE", "NODE_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE",
    // torchelastic's
    "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_ERROR_FILE",
    // our own
    "TRAINRUN_JOB_ID", "TRAINRUN_GENERATION", "TRAINRUN_RESTART_COUNT", "TRAINRUN_RANK", "TRAINRUN_SIZE",
    "TRAINRUN_LOCAL_RANK", "TRAINRUN_LOCAL_SIZE", "TRAINRUN_CROSS_RANK", "TRAINRUN_CROSS_SIZE",
    "TRAINRUN_HOST", "TRAINRUN_RENDEZVOUS", "TRAINRUN_KEY_FILE", "TRAINRUN_ADDRESS", "TRAINRUN_WORKER"};

std::string thread_count(const JobSpec& job, const Seat& seat, const std::string& host,
                         const wire::HostFacts* facts) {
  if (job.cpus_per_rank > 0) return std::to_string(job.cpus_per_rank);
  if (job.bind_to == BindTo::core) return "1";
  if (facts == nullptr) return fmt::format("<usable cores of {} / {}, at least 1>", host, seat.local_size);
  return std::to_string(std::max(1U, usable_cores(*facts) / seat.local_size));
}

std::string gloo_interface(const std::string& host, const std::string& address,
                           const wire::HostFacts* facts) {
  if (facts == nullptr) return fmt::format("<interface of its address, if {} calls itself 127.x>", host);
  if (!facts->name_is_loopback) return {};
  const auto found = std::find_if(facts->interfaces.begin(), facts->interfaces.end(),
                                  [&](const wire::InterfaceFact& fact) { return fact.address == address; });
  return found == facts->interfaces.end() ? std::string() : found->name;
}

void add_defaults(Env& env, const JobSpec& job, const Placement& placement, const Seat& seat,
                  const WorldFacts& world, const wire::HostFacts* facts) {
  const auto& host = job.hosts.hosts[seat.host.value].name;
  env["MASTER_ADDR"] = world.master_addr;
  env["MASTER_PORT"] = world.master_port;
  env["ROLE_NAME"] = "default";
  // torch renamed it in 2.2; both names are set, since the worker's version is not known here.
  env["NCCL_ASYNC_ERROR_HANDLING"] = "1";
  env["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "1";
  env["PYTHONUNBUFFERED"] = "1";
  env["OMP_NUM_THREADS"] = thread_count(job, seat, host, facts);
  if (!job.network_interface.empty()) {
    env["GLOO_SOCKET_IFNAME"] = job.network_interface;
    env["NCCL_SOCKET_IFNAME"] = job.network_interface;
  } else if (placement.groups > 1) {
    if (auto name = gloo_interface(host, world.address, facts); !name.empty()) {
      env["GLOO_SOCKET_IFNAME"] = std::move(name);
    }
  }
  std::erase_if(env, [&](const auto& var) { return find_variable(job.env, var.first) != nullptr; });
}

void add_torchelastic(Env& env, const JobSpec& job, const Placement& placement, const Seat& seat,
                      const WorldFacts& world) {
  env["RANK"] = env["ROLE_RANK"] = std::to_string(seat.rank.value);
  env["WORLD_SIZE"] = env["ROLE_WORLD_SIZE"] = std::to_string(placement.seats.size());
  env["LOCAL_RANK"] = std::to_string(seat.local_rank);
  env["LOCAL_WORLD_SIZE"] = std::to_string(seat.local_size);
  env["GROUP_RANK"] = std::to_string(seat.group_rank);
  env["GROUP_WORLD_SIZE"] = std::to_string(placement.groups);
  env["TORCHELASTIC_RESTART_COUNT"] = std::to_string(world.restart_count);
  env["TORCHELASTIC_MAX_RESTARTS"] = std::to_string(job.elastic.enabled() ? job.elastic.limit.count : 0);
  env["TORCHELASTIC_RUN_ID"] = job.id;
  env["TORCHELASTIC_USE_AGENT_STORE"] = "False";  // rank 0 opens the store itself
  env["TORCHELASTIC_ERROR_FILE"] = world.error_file;
}

// The names that DeepSpeed's own launcher exports, and Lightning's NODE_RANK.
void add_deepspeed(Env& env, const Seat& seat) {
  env["NODE_RANK"] = std::to_string(seat.group_rank);
  env["LOCAL_SIZE"] = std::to_string(seat.local_size);
  env["CROSS_RANK"] = std::to_string(seat.cross_rank);
  env["CROSS_SIZE"] = std::to_string(seat.cross_size);
}

void add_trainrun(Env& env, const JobSpec& job, const Placement& placement, const Seat& seat,
                  const WorldFacts& world) {
  env["TRAINRUN_JOB_ID"] = job.id;
  env["TRAINRUN_GENERATION"] = std::to_string(placement.generation.value);
  env["TRAINRUN_RESTART_COUNT"] = std::to_string(world.restart_count);
  env["TRAINRUN_RANK"] = std::to_string(seat.rank.value);
  env["TRAINRUN_SIZE"] = std::to_string(placement.seats.size());
  env["TRAINRUN_LOCAL_RANK"] = std::to_string(seat.local_rank);
  env["TRAINRUN_LOCAL_SIZE"] = std::to_string(seat.local_size);
  env["TRAINRUN_CROSS_RANK"] = std::to_string(seat.cross_rank);
  env["TRAINRUN_CROSS_SIZE"] = std::to_string(seat.cross_size);
  env["TRAINRUN_HOST"] = job.hosts.hosts[seat.host.value].name;
  env["TRAINRUN_RENDEZVOUS"] = world.rendezvous;
  env["TRAINRUN_KEY_FILE"] = world.key_file;
  env["TRAINRUN_ADDRESS"] = world.address;
}

}  // namespace

std::vector<EnvVar> worker_env(const JobSpec& job, const Placement& placement, Rank rank,
                               const WorldFacts& world, const wire::HostFacts* facts) {
  const auto& seat = placement.seats[rank.value];
  Env env;
  add_defaults(env, job, placement, seat, world, facts);
  if (job.gpus_per_rank > 0) {
    env["CUDA_VISIBLE_DEVICES"] = env["HIP_VISIBLE_DEVICES"] = visible_gpus(job, seat.slot);
  }
  for (const auto& [name, value] : job.programs[seat.program].env) env[name] = value;
  add_torchelastic(env, job, placement, seat, world);
  add_deepspeed(env, seat);
  add_trainrun(env, job, placement, seat, world);

  std::vector<EnvVar> changed;
  for (auto& [name, value] : env) {
    const auto* before = find_variable(job.env, name);
    if (before == nullptr || *before != value) changed.emplace_back(name, std::move(value));
  }
  return changed;
}

bool is_always_set(std::string_view name) {
  return std::find(std::begin(always_set), std::end(always_set), name) != std::end(always_set);
}

}  // namespace trainrun::core
