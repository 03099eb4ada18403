#include "launcher/core/worker_env.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "launcher/base/strings.h"
#include "launcher/core/addresses.h"
#include "launcher/core/binding.h"
#include "launcher/core/env_var.h"

namespace trainrun::core {
namespace {

using Env = std::map<std::string, std::string, std::less<>>;

constexpr std::string_view usual_role = "default";
constexpr Duration survivors_wait_on = std::chrono::minutes(1);

std::string thread_count(const JobSpec& job, const Seat& seat, const std::string& host,
                         const wire::HostFacts* facts) {
  if (job.cpus_per_rank > 0) return std::to_string(job.cpus_per_rank);
  const auto bound = facts == nullptr ? job.bind_to : binding_of(job, *facts, seat.local_size);
  if (bound == BindTo::core) return "1";
  if (facts == nullptr) return fmt::format("<usable cores of {} / {}, at least 1>", host, seat.local_size);
  return std::to_string(std::max(1U, usable_cores(*facts) / seat.local_size));
}

std::string interface_of(const std::string& address, const wire::HostFacts& facts) {
  const auto found = std::find_if(facts.interfaces.begin(), facts.interfaces.end(),
                                  [&](const wire::InterfaceFact& fact) { return fact.address == address; });
  return found == facts.interfaces.end() ? std::string() : found->name;
}

std::string gloo_interface(const std::string& host, const std::string& address,
                           const wire::HostFacts* facts) {
  if (facts == nullptr) return fmt::format("<interface of its address, if {} calls itself 127.x>", host);
  return facts->name_is_loopback ? interface_of(address, *facts) : std::string();
}

bool is_alone(const JobSpec& job, const Placement& placement) {
  return placement.groups == 1 && !may_spread(job);
}

// Without an interface Horovod takes the address of the host's own name, which may be 127.0.1.1.
void add_horovod_defaults(Env& env, const JobSpec& job, const Placement& placement, const std::string& host,
                          const WorldFacts& world, const wire::HostFacts* facts) {
  env["HOROVOD_CONTROLLER"] = env["HOROVOD_CPU_OPERATIONS"] = "gloo";
  auto name = !job.network_interface.empty() ? job.network_interface
              : is_alone(job, placement)     ? "lo"
              : facts == nullptr             ? fmt::format("<interface of the address of {}>", host)
                                             : interface_of(world.address, *facts);
  if (name.empty()) return;
  env["NCCL_SOCKET_IFNAME"] = name;  // as horovodrun does
  env["HOROVOD_GLOO_IFACE"] = std::move(name);
}

// Open MPI 4.1 takes itself for a world of one unless told that it was not started by its own daemon, nor,
// within an allocation, by what the batch system starts ranks with: those modules look at variables of the
// job (SLURM_JOBID, FLUX_JOB_ID), which scripts may need, and one that is not there is left out as well. The
// modules of libpmix are those that every release and build has. A crashed rank's shared memory goes with the
// job's directory, where that is memory.
void add_open_mpi_defaults(Env& env, const JobSpec& job, const Seat& seat, const WorldFacts& world,
                           const wire::HostFacts* facts) {
  env["OMPI_MCA_schizo"] = "^orte,slurm,alps,jsm,flux";
  env["PMIX_MCA_psec"] = "native";
  env["PMIX_MCA_gds"] = "hash";
  env["OMPI_MCA_orte_precondition_transports"] = fmt::format("{0}-{0}", job.id);
  if (world.job_directory.starts_with("/dev/shm/"))
    env["OMPI_MCA_btl_vader_backing_directory"] = env["OMPI_MCA_btl_sm_backing_directory"] =
        world.job_directory;
  if (facts != nullptr && seat.local_size > usable_cores(*facts)) env["OMPI_MCA_mpi_yield_when_idle"] = "1";
  // Who is to outlive other ranks must know it from the beginning.
  if (job.elastic.on_failure == OnFailure::ignore) env["OMPI_MCA_mpi_ft_enable"] = "1";
}

void add_defaults(Env& env, const JobSpec& job, const Placement& placement, const Seat& seat,
                  const WorldFacts& world, const wire::HostFacts* facts) {
  const auto& host = job.hosts.hosts[seat.host.value].name;
  env["MASTER_ADDR"] = world.master_addr;
  env["MASTER_PORT"] = world.master_port;
  env["ROLE_NAME"] = job.role;
  // Its name since torch 2.2, which warns of the old one. Who sets the old one is to be obeyed.
  if (find_variable(job.env, "NCCL_ASYNC_ERROR_HANDLING") == nullptr)
    env["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "1";
  env["PYTHONUNBUFFERED"] = "1";
  env["OMP_NUM_THREADS"] = thread_count(job, seat, host, facts);
  if (!job.network_interface.empty()) {
    env["GLOO_SOCKET_IFNAME"] = job.network_interface;
    env["NCCL_SOCKET_IFNAME"] = job.network_interface;
    // What MPI programs take instead: Open MPI, libfabric, UCX.
    if (offers_pmix(job, world)) env["OMPI_MCA_btl_tcp_if_include"] = job.network_interface;
    if (offers_pmi(job, world) || offers_pmix(job, world))
      env["FI_TCP_IFACE"] = env["UCX_NET_DEVICES"] = job.network_interface;
  } else if (!is_alone(job, placement)) {
    if (auto name = gloo_interface(host, world.address, facts); !name.empty()) {
      env["GLOO_SOCKET_IFNAME"] = std::move(name);
    }
  }
  if (offers_pmi(job, world) && placement.groups > 1)
    env["PMI_HOSTNAME"] = env["MPIR_CVAR_CH3_INTERFACE_HOSTNAME"] = world.address;
  if (offers_pmix(job, world)) add_open_mpi_defaults(env, job, seat, world, facts);
  if (!world.horovod_port.empty()) add_horovod_defaults(env, job, placement, host, world, facts);
  std::erase_if(env, [&](const auto& var) { return find_variable(job.env, var.first) != nullptr; });
}

// The door is on loopback, and no proxy knows the way to it.
void add_no_proxy(Env& env, const JobSpec& job) {
  constexpr std::string_view loopback = "127.0.0.1";
  const bool any = std::any_of(job.env.begin(), job.env.end(), [](const EnvVar& var) {
    return var.first.ends_with("_proxy") || var.first.ends_with("_PROXY");
  });
  if (!any) return;
  for (const auto* name : {"no_proxy", "NO_PROXY"}) {
    const auto* before = find_variable(job.env, name);
    const std::string list = before == nullptr ? "" : *before;
    const auto names = split(list, ',');
    if (list == "*" || std::find(names.begin(), names.end(), loopback) != names.end()) continue;
    env[name] = list.empty() ? std::string(loopback) : fmt::format("{},{}", list, loopback);
  }
}

void add_torchelastic(Env& env, const JobSpec& job, const Placement& placement, const Seat& seat,
                      const WorldFacts& world) {
  env["RANK"] = env["ROLE_RANK"] = std::to_string(seat.rank.value);
  env["WORLD_SIZE"] = env["ROLE_WORLD_SIZE"] = std::to_string(placement.seats.size());
  env["LOCAL_RANK"] = job.virtual_local_rank ? "0" : std::to_string(seat.local_rank);
  env["LOCAL_WORLD_SIZE"] = std::to_string(seat.local_size);
  env["GROUP_RANK"] = std::to_string(seat.group_rank);
  if (job.role != usual_role) env["ROLE_NAME"] = job.role;  // it was asked for
  env["GROUP_WORLD_SIZE"] = std::to_string(placement.groups);
  env["TORCHELASTIC_RESTART_COUNT"] = std::to_string(world.restart_count);
  env["TORCHELASTIC_MAX_RESTARTS"] = std::to_string(job.elastic.enabled() ? job.elastic.limit.count : 0);
  env["TORCHELASTIC_RUN_ID"] = job.run_id.empty() ? job.id : job.run_id;
  // False: rank 0 opens the store itself.
  env["TORCHELASTIC_USE_AGENT_STORE"] = world.agent_store ? "True" : "False";
  if (world.agent_store) {
    env["MASTER_ADDR"] = world.master_addr;
    env["MASTER_PORT"] = world.master_port;
  }
  env["TORCHELASTIC_ERROR_FILE"] = world.error_file;
}

// The names that DeepSpeed's own launcher exports, and Lightning's NODE_RANK.
void add_deepspeed(Env& env, const Seat& seat) {
  env["NODE_RANK"] = std::to_string(seat.group_rank);
  env["LOCAL_SIZE"] = std::to_string(seat.local_size);
  env["CROSS_RANK"] = std::to_string(seat.cross_rank);
  env["CROSS_SIZE"] = std::to_string(seat.cross_size);
}

// Horovod's ranks. The name is the one that the user wrote: their local mesh is called by it.
void add_horovod(Env& env, const JobSpec& job, const Placement& placement, const Seat& seat,
                 const std::string& port) {
  env["HOROVOD_HOSTNAME"] = job.hosts.hosts[seat.host.value].name;
  env["HOROVOD_RANK"] = std::to_string(seat.rank.value);
  env["HOROVOD_SIZE"] = std::to_string(placement.seats.size());
  env["HOROVOD_LOCAL_RANK"] = std::to_string(seat.local_rank);
  env["HOROVOD_LOCAL_SIZE"] = std::to_string(seat.local_size);
  env["HOROVOD_CROSS_RANK"] = std::to_string(seat.cross_rank);
  env["HOROVOD_CROSS_SIZE"] = std::to_string(seat.cross_size);
  env["HOROVOD_GLOO_RENDEZVOUS_ADDR"] = "127.0.0.1";
  env["HOROVOD_GLOO_RENDEZVOUS_PORT"] = port;
  // Without it hvd.init takes the same place again, as it must where all ranks start anew.
  const auto policy = job.elastic.on_failure;
  if (policy == OnFailure::automatic || policy == OnFailure::in_place) env["HOROVOD_ELASTIC"] = "1";
}

// MPICH, MVAPICH and Intel MPI. A libmpi that also knows PMI-2 and PMIx is told which of them it finds here.
void add_pmi(Env& env, const Placement& placement, const Seat& seat) {
  env["PMI_FD"] = std::to_string(pmi_descriptor);
  env["PMI_RANK"] = std::to_string(seat.rank.value);
  env["PMI_SIZE"] = std::to_string(placement.seats.size());
  env["MPI_LOCALRANKID"] = std::to_string(seat.local_rank);
  env["MPI_LOCALNRANKS"] = std::to_string(seat.local_size);
  env["MPIR_CVAR_PMI_VERSION"] = "1";
}

// What scripts that were written for Open MPI's mpirun read.
void add_open_mpi(Env& env, const JobSpec& job, const Placement& placement, const Seat& seat) {
  const auto size = std::to_string(placement.seats.size());
  env["OMPI_COMM_WORLD_RANK"] = std::to_string(seat.rank.value);
  env["OMPI_COMM_WORLD_SIZE"] = env["OMPI_UNIVERSE_SIZE"] = size;
  env["OMPI_COMM_WORLD_LOCAL_RANK"] = env["OMPI_COMM_WORLD_NODE_RANK"] = std::to_string(seat.local_rank);
  env["OMPI_COMM_WORLD_LOCAL_SIZE"] = std::to_string(seat.local_size);
  env["OMPI_NUM_APP_CTX"] = std::to_string(job.programs.size());
  env["OMPI_MCA_orte_app_num"] = std::to_string(seat.program);
  env["OMPI_COMMAND"] = job.programs[seat.program].argv.front();
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
  // The launcher gives up first, and says why. Survivors that did would take the state with them.
  if (job.elastic.enabled())
    env["TRAINRUN_ELASTIC_TIMEOUT"] =
        std::to_string(std::chrono::ceil<seconds>(job.elastic.timeout + survivors_wait_on).count());
}

}  // namespace

std::vector<EnvVar> worker_env(const JobSpec& job, const Placement& placement, Rank rank,
                               const WorldFacts& world, const wire::HostFacts* facts) {
  const auto& seat = placement.seats[rank.value];
  Env env;
  add_defaults(env, job, placement, seat, world, facts);
  if (job.gpus_per_rank > 0) env["CUDA_VISIBLE_DEVICES"] = env["HIP_VISIBLE_DEVICES"] = world.gpus;
  add_no_proxy(env, job);
  for (const auto& [name, value] : job.programs[seat.program].env) env[name] = value;
  add_torchelastic(env, job, placement, seat, world);
  add_deepspeed(env, seat);
  if (offers_pmi(job, world)) add_pmi(env, placement, seat);
  if (offers_pmix(job, world) || (job.as_mpirun && job.compat != Compat::none))
    add_open_mpi(env, job, placement, seat);
  if (!world.horovod_port.empty()) add_horovod(env, job, placement, seat, world.horovod_port);
  add_trainrun(env, job, placement, seat, world);

  std::vector<EnvVar> changed;
  for (auto& [name, value] : env) {
    const auto* before = find_variable(job.env, name);
    if (before == nullptr || *before != value) changed.emplace_back(name, std::move(value));
  }
  return changed;
}

bool offers_pmi(const JobSpec& job, const WorldFacts& world) {
  return (job.compat == Compat::automatic || job.compat == Compat::mpich) && world.all_new;
}

bool offers_pmix(const JobSpec& job, const WorldFacts& world) {
  if (!world.all_new) return false;
  return job.compat == Compat::open_mpi || (job.compat == Compat::automatic && world.pmix_everywhere);
}

}  // namespace trainrun::core
