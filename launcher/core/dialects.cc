#include "launcher/core/dialects.h"

#include <algorithm>
#include <array>
#include <span>

#include "launcher/base/strings.h"

namespace trainrun::core {
namespace {

using Names = std::span<const std::string_view>;

struct Dialect {
  Names sets;    // we give these to every rank
  Names scrubs;  // patterns of what else its own launcher sets for one process, or reads itself
};

constexpr std::string_view torch_sets[] = {"RANK",
                                           "WORLD_SIZE",
                                           "LOCAL_RANK",
                                           "LOCAL_WORLD_SIZE",
                                           "GROUP_RANK",
                                           "GROUP_WORLD_SIZE",
                                           "ROLE_RANK",
                                           "ROLE_WORLD_SIZE",
                                           "TORCHELASTIC_RESTART_COUNT",
                                           "TORCHELASTIC_MAX_RESTARTS",
                                           "TORCHELASTIC_RUN_ID",
                                           "TORCHELASTIC_USE_AGENT_STORE",
                                           "TORCHELASTIC_ERROR_FILE"};
constexpr std::string_view torch_scrubs[] = {"ROLE_NAME", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_*"};

constexpr std::string_view deepspeed_sets[] = {"NODE_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE"};

constexpr std::string_view horovod_scrubs[] = {
    "HOROVOD_RANK",       "HOROVOD_SIZE",       "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE",
    "HOROVOD_CROSS_RANK", "HOROVOD_CROSS_SIZE", "HOROVOD_HOSTNAME",   "HOROVOD_GLOO_RENDEZVOUS_*",
    "HOROVOD_ELASTIC",    "_HOROVOD_*"};

constexpr std::string_view pmi_sets[] = {"PMI_FD",          "PMI_RANK",        "PMI_SIZE",
                                         "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "MPIR_CVAR_PMI_VERSION"};
// I_MPI_PMI*: sites point them at the library of Slurm, which does not look at PMI_FD.
constexpr std::string_view pmi_scrubs[] = {"PMI_*",
                                           "PMI2_*",
                                           "MPIR_CVAR_CH3_INTERFACE_HOSTNAME",
                                           "MV2_COMM_WORLD_*",
                                           "HYDI_*",
                                           "HYDRA_BOOTSTRAP*",
                                           "HYDRA_LAUNCHER*",
                                           "I_MPI_HYDRA_BOOTSTRAP*",
                                           "I_MPI_PMI",
                                           "I_MPI_PMI_LIBRARY"};

// PMIX_MCA_* are settings of the user's, and go on.
constexpr std::string_view open_mpi_scrubs[] = {"PMIX_NAMESPACE",
                                                "PMIX_RANK",
                                                "PMIX_ID",
                                                "PMIX_SERVER_*",
                                                "PMIX_SECURITY_MODE",
                                                "PMIX_BFROP_BUFFER_TYPE",
                                                "PMIX_GDS_MODULE",
                                                "PMIX_PTL_MODULE",
                                                "PMIX_DSTORE_*",
                                                "PMIX_SYSTEM_TMPDIR",
                                                "PMIX_HOSTNAME",
                                                "PMIX_VERSION",
                                                "PMIX_LAUNCHER_*",
                                                "PMIX_KEEPALIVE_PIPE",
                                                "OMPI_COMM_WORLD_*",
                                                "OMPI_UNIVERSE_SIZE",
                                                "OMPI_MCA_orte_*",
                                                "OMPI_MCA_ess*",
                                                "OMPI_MCA_initial_wdir",
                                                "OMPI_MCA_plm_slurm_args",
                                                "OMPI_APP_CTX_NUM_PROCS",
                                                "OMPI_FIRST_RANKS",
                                                "OMPI_NUM_APP_CTX",
                                                "OMPI_COMMAND",
                                                "OMPI_ARGV",
                                                "OMPI_FILE_LOCATION",
                                                "PRTE_LAUNCHED",
                                                "PRTE_MCA_plm_slurm_args"};

// What describes one task or step; what describes the job stays.
constexpr std::string_view slurm_scrubs[] = {"SLURM_PROCID",
                                             "SLURM_LOCALID",
                                             "SLURM_NODEID",
                                             "SLURM_GTIDS",
                                             "SLURM_NTASKS*",
                                             "SLURM_NPROCS",
                                             "SLURM_STEP_*",
                                             "SLURM_STEPID",
                                             "SLURM_TASK_PID",
                                             "SLURM_SRUN_COMM_*",
                                             "SLURM_LAUNCH_NODE_IPADDR",
                                             "SLURM_CPU_BIND*",
                                             "SLURM_MEM_BIND*",
                                             "SLURM_DISTRIBUTION",
                                             "SLURM_PMI*"};

constexpr std::string_view pbs_scrubs[] = {"PBS_TASKNUM",  "PBS_NODENUM", "PBS_VNODENUM",
                                           "PALS_*RANKID", "PALS_APID",   "PALS_SPOOL_DIR"};

constexpr std::string_view lsf_scrubs[] = {"LSF_PM_*", "LS_JOBPID", "JSM_*"};

constexpr std::string_view flux_scrubs[] = {"FLUX_TASK_*", "FLUX_KVS_NAMESPACE", "FLUX_PMI_*"};

constexpr std::string_view trainrun_sets[] = {
    "TRAINRUN_JOB_ID",     "TRAINRUN_GENERATION", "TRAINRUN_RESTART_COUNT",  "TRAINRUN_RANK",
    "TRAINRUN_SIZE",       "TRAINRUN_LOCAL_RANK", "TRAINRUN_LOCAL_SIZE",     "TRAINRUN_CROSS_RANK",
    "TRAINRUN_CROSS_SIZE", "TRAINRUN_HOST",       "TRAINRUN_RENDEZVOUS",     "TRAINRUN_KEY_FILE",
    "TRAINRUN_ADDRESS",    "TRAINRUN_WORKER",     "TRAINRUN_ELASTIC_TIMEOUT"};
// Those that configure the launcher included.
constexpr std::string_view trainrun_scrubs[] = {"TRAINRUN_*"};
constexpr std::string_view settings_of_comm[] = {
    "TRAINRUN_COMM_LIBRARY", "TRAINRUN_COMM_BACKEND", "TRAINRUN_OP_TIMEOUT",         "TRAINRUN_INIT_TIMEOUT",
    "TRAINRUN_NCCL_LIB",     "TRAINRUN_CUDA_LIB",     "TRAINRUN_NCCL_ABORT_TIMEOUT", "TRAINRUN_FUSION_BYTES"};

constexpr Dialect dialects[] = {
    {torch_sets, torch_scrubs}, {deepspeed_sets, {}},
    {{}, horovod_scrubs},       {pmi_sets, pmi_scrubs},
    {{}, open_mpi_scrubs},      {{}, slurm_scrubs},
    {{}, pbs_scrubs},           {{}, lsf_scrubs},
    {{}, flux_scrubs},          {trainrun_sets, trainrun_scrubs},
};

// Every variable is looked at before each start, and most begin as no name above does: their first two
// letters tell. Others that share a slot are looked up for nothing.
constexpr std::size_t slot_of(std::string_view name) {
  return (static_cast<unsigned char>(name[0]) * 37U + static_cast<unsigned char>(name[1])) % 256;
}
constexpr auto beginnings = [] {
  std::array<bool, 256> out{};
  for (const auto& dialect : dialects)
    for (const auto& list : {dialect.sets, dialect.scrubs})
      for (const auto name : list) out[slot_of(name)] = true;
  return out;
}();

bool begins_as_one(std::string_view name) { return name.size() >= 2 && beginnings[slot_of(name)]; }

bool names(Names all, std::string_view name) { return std::find(all.begin(), all.end(), name) != all.end(); }

}  // namespace

bool is_always_set(std::string_view name) {
  return begins_as_one(name) &&
         std::any_of(std::begin(dialects), std::end(dialects),
                     [name](const Dialect& dialect) { return names(dialect.sets, name); });
}

bool is_setting_of_comm(std::string_view name) { return names(settings_of_comm, name); }

bool is_rank_variable(std::string_view name) {
  if (!begins_as_one(name) || is_setting_of_comm(name)) return false;
  return is_always_set(name) ||
         std::any_of(std::begin(dialects), std::end(dialects), [name](const Dialect& dialect) {
           return std::any_of(dialect.scrubs.begin(), dialect.scrubs.end(),
                              [name](std::string_view pattern) { return matches_glob(pattern, name); });
         });
}

}  // namespace trainrun::core
