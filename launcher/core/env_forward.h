// Which of the launcher's variables the workers get.
//
// A job on this host alone inherits everything but the rank variables of other launchers, which would lie to
// it. With other hosts all hosts, this one too, get one list. By default (the tables are in env_forward.cc):
//   goes      where programs and libraries are (PATH, LD_LIBRARY_PATH, PYTHON*, VIRTUAL_ENV, CONDA_*,
//             modules),
//             how libraries behave (NCCL_*, GLOO_*, UCX_*, OMP_*, MKL_*, TORCH_*, CUDA_*, TF_*, XLA_*, ...),
//             language and time zone (LANG, LC_*, TZ), proxies, what describes a batch job (its number, name,
//             array index and where it was submitted: SLURM_*, PBS_*, LSB_*, SGE_*)
//   stays     credentials by name or, in a URL, by value; what describes this host or this login (TERM,
//             SSH_*, XDG_*, DISPLAY, ..., and HOME, USER, LOGNAME and SHELL, which each agent gives as its
//             own login has them); CUDA_VISIBLE_DEVICES, whose numbers mean other devices elsewhere;
//             and all that is not in the tables
// --env all: everything goes but rank variables and what describes this host. --env none: nothing goes.
// Then --env-file, then -x, both without any exception. A -x pattern (`WANDB_*`) takes credentials too, but
// no rank variables.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/core/job_spec.h"

namespace trainrun::core {

struct ForwardedEnv {
  std::vector<EnvVar> env;               // sorted by name, each name once
  std::vector<std::string> left_behind;  // the user's own that stayed here, most needed first
  std::vector<std::string> missing;      // -x NAME (or a pattern) that nothing here answers to, as given
};

// `mine` is the launcher's environment (of a name given twice the first holds); `exports` are the words after
// -x: NAME, NAME=VALUE, or a pattern with * and ?. `this_host_only`: no other host is in the job.
ForwardedEnv forward_environment(const std::vector<EnvVar>& mine, EnvPolicy policy, bool this_host_only,
                                 const std::vector<std::string>& exports,
                                 const std::vector<EnvVar>& env_file);

// Of lists of devices, whose numbers mean others on other hosts: CUDA_VISIBLE_DEVICES and its like.
bool names_devices(std::string_view variable);

// Whether the value is a credential, to judge by the name: API_KEY, HF_TOKEN, AWS_..., but not
// TOKENIZERS_PARALLELISM.
bool is_secret_name(std::string_view name);

// Whether the value holds a URL, or several, with a password or an access token in it.
bool has_password(std::string_view value);

}  // namespace trainrun::core
