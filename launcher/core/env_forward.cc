#include "launcher/core/env_forward.h"

#include <algorithm>
#include <map>
#include <span>

#include "launcher/base/strings.h"
#include "launcher/core/dialects.h"
#include "launcher/core/env_var.h"

namespace trainrun::core {
namespace {

using Env = std::map<std::string, std::string, std::less<>>;
using Table = std::span<const std::string_view>;  // of patterns

bool in(Table table, std::string_view name) {
  return std::any_of(table.begin(), table.end(),
                     [&](std::string_view pattern) { return matches_glob(pattern, name); });
}

constexpr std::string_view forwarded[] = {
    // where programs and libraries are
    "PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "LIBRARY_PATH", "CPATH", "PYTHON*", "VIRTUAL_ENV*", "CONDA_*",
    "_CE_*", "MAMBA_*", "PYENV_*", "MODULEPATH*", "MODULESHOME", "LOADEDMODULES", "_LMFILES_*", "LMOD_*",
    "EBROOT*", "EBVERSION*", "SPACK_*", "NIX_*", "JULIA_*", "R_LIBS*",
    // communication
    "NCCL_*", "RCCL_*", "GLOO_*", "UCX_*", "UCC_*", "FI_*", "OMPI_MCA_*", "PRTE_MCA_*", "MPICH_*",
    "MPIR_CVAR_*", "I_MPI_*", "MV2_*", "HCOLL_*", "SHARP_*", "IBV_*", "RDMAV_*", "HOROVOD_*", "GRPC_*",
    // threads and numerics
    "OMP_*", "KMP_*", "GOMP_*", "MKL_*", "OPENBLAS_*", "GOTO_*", "BLIS_*", "NUMEXPR_*", "DNNL_*", "ONEDNN_*",
    "MALLOC_*", "TBB_*",
    // GPUs
    "CUDA_*", "CUBLAS_*", "CUDNN_*", "NVTE_*", "NVIDIA_TF32_OVERRIDE", "ROCM_*", "HIP_*", "HSA_*", "MIOPEN_*",
    // frameworks
    "TORCH_*", "TORCHINDUCTOR_*", "TORCHDYNAMO_*", "PYTORCH_*", "TRITON_*", "TF_*", "XLA_*", "JAX_*",
    "KERAS_*", "FLAX_*", "HF_*", "HUGGINGFACE_*", "TRANSFORMERS_*", "TOKENIZERS_*", "ACCELERATE_*", "FSDP_*",
    "DS_*", "DEEPSPEED_*", "BYTEPS_*", "HYDRA_FULL_ERROR",
    // language, time zone, proxies
    "LANG", "LANGUAGE", "LC_*", "TZ", "http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy",
    "HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY",
    // which job this is
    "SLURM_JOB_ID", "SLURM_JOBID", "SLURM_JOB_NAME", "SLURM_SUBMIT_DIR", "SLURM_RESTART_COUNT",
    "SLURM_ARRAY_*", "SLURM_CPUS_PER_TASK", "SLURM_NNODES", "SLURM_JOB_NUM_NODES", "SLURM_JOB_PARTITION",
    "SLURM_JOB_ACCOUNT", "SLURM_CLUSTER_NAME", "SLURM_CONF", "PBS_JOBID", "PBS_JOBNAME", "PBS_QUEUE",
    "PBS_ARRAY*", "PBS_O_*", "PBS_ENVIRONMENT", "LSB_JOBID", "LSB_JOBNAME", "LSB_JOBINDEX*", "LSB_BATCH_JID",
    "LSB_QUEUE", "LS_SUBCWD", "JOB_ID", "JOB_NAME", "SGE_TASK_*", "SGE_O_*", "SGE_CWD_PATH"};

constexpr std::string_view devices[] = {
    // of this host; the same numbers are others elsewhere
    "*VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK"};

constexpr std::string_view local_only[] = {
    // of this host or this login: wrong elsewhere, even with --env all
    "_", "PWD", "OLDPWD", "SHLVL", "HOME", "USER", "LOGNAME", "SHELL", "HOSTNAME", "HOST", "MAIL", "TMPDIR",
    "TMP", "TEMP",
    // the session and its desktop
    "SSH_*", "XDG_RUNTIME_DIR", "XDG_SESSION_*", "XDG_SEAT*", "XDG_VTNR", "DBUS_*", "DISPLAY", "WAYLAND_*",
    "XAUTHORITY", "SESSION_MANAGER", "WINDOWID", "TMUX*", "STY",
    // systemd
    "INVOCATION_ID", "JOURNAL_STREAM", "NOTIFY_SOCKET", "LISTEN_*", "CREDENTIALS_DIRECTORY",
    "MEMORY_PRESSURE_*", "SYSTEMD_*"};

constexpr std::string_view noise[] = {
    // what login, desktop, editor and scheduler put into everybody's environment: nobody misses it in a
    // worker
    "SHELLOPTS", "BASHOPTS", "BASH_*", "ZSH*", "FISH_*", "ZDOTDIR", "TERM*", "COLORTERM", "COLORFGBG",
    // terminal, pager, prompt
    "LINES", "COLUMNS", "LS_COLORS", "LSCOLORS", "GREP_COLOR*", "CLICOLOR*", "NO_COLOR", "FORCE_COLOR",
    "EDITOR", "VISUAL", "PAGER", "LESS*", "MANPATH", "MANPAGER", "INFOPATH", "HIST*", "PS1", "PS2", "PS4",
    "PROMPT*", "STARSHIP_*", "GROUP", "GROUPS", "UID", "EUID", "HOSTTYPE", "MACHTYPE", "OSTYPE", "VENDOR",
    // desktop and editors
    "XDG_*", "DESKTOP_*", "GNOME_*", "GTK_*", "GDM*", "GJS_*", "GIO_*", "QT_*", "KDE_*", "XMODIFIERS",
    "IM_CONFIG_*", "VTE_*", "WT_*", "WSL*", "KITTY_*", "ALACRITTY_*", "KONSOLE_*", "ITERM_*", "LC_TERMINAL*",
    "VSCODE_*", "ELECTRON_*", "SUDO_*", "GPG_*", "KRB5*", "NVM_*", "npm_*", "DEBIAN_FRONTEND", "DEBUGINFOD_*",
    "MOTD_SHOWN", "container",
    // schedulers, launchers, containers
    "SLURM*", "SBATCH_*", "SRUN_*", "SALLOC_*", "ENVIRONMENT", "PBS_*", "LSB_*", "LSF_*", "SGE_*", "FLUX_*",
    "KUBERNETES_*", "*_SERVICE_HOST", "*_SERVICE_PORT", "*_PORT_*_TCP*", "PRTE_*", "OMPI_*", "NVIDIA_*",
    "JAVA_HOME", "COBALT_*", "PE_HOSTFILE", "NSLOTS", "NHOSTS", "NQUEUES", "JOB_ID", "JOB_NAME",
    // more of shells, editors and desktops
    "BASH_ENV", "ENV", "FPATH", "FZF_*", "PS3", "P9K_*", "POWERLEVEL9K_*", "VIM*", "NVIM*", "EMACS*",
    "INSIDE_EMACS", "ZELLIJ*", "HOMEBREW_*", "MODULES_*", "__MODULES_*", "XCURSOR_*", "CLUTTER_*",
    "PAPERSIZE"};

// Of package managers, build tools, certificates and machines that run tests: seldom missed, and many.
constexpr std::string_view tools[] = {
    "PIP_*",    "PIPX_*",      "UV_*",       "POETRY_*",    "TOX_*",       "PRE_COMMIT_*", "NODE_*",
    "YARN_*",   "RUST*",       "CARGO_*",    "GO*",         "JAVA*",       "JDK_*",        "MAVEN_*",
    "GRADLE_*", "ANDROID_*",   "DOTNET_*",   "CMAKE_*",     "CCACHE_*",    "CC",           "CXX",
    "CFLAGS",   "CXXFLAGS",    "LDFLAGS",    "MAKE*",       "PKG_CONFIG*", "GIT_*",        "CURL_*",
    "WGET*",    "SSL_*",       "REQUESTS_*", "HTTPLIB2_*",  "*_CA_BUNDLE", "*_CA_CERTS",   "*_CA_CERTS_FILE",
    "*_CAINFO", "*_CERT_FILE", "CLOUDSDK_*", "CLOUD_SDK_*", "DOCKER_*",    "CONTAINER_*",  "CI",
    "CI_*",     "GITHUB_*",    "GITLAB_*",   "JENKINS_*",   "BUILD_*",     "RUNNER_*",     "IS_SANDBOX"};

constexpr std::string_view credentials[] = {
    // in capitals; see also is_secret_name()
    "*SECRET*", "*PASSWORD*", "*PASSWD*", "*PASSPHRASE*", "*CREDENTIAL*", "*APIKEY*", "*_KEY", "*_KEY_ID",
    "*_KEY_BASE64", "*_PAT", "*PASS", "*_PWD", "*_AUTH", "KEY", "*_DSN", "*CONNECTION_STRING*", "NETRC",
    "*_KEYS", "PAT", "PW", "*_PW", "AUTH", "AUTHORIZATION", "*JWT*", "*BEARER*", "*COOKIE*", "*WEBHOOK*",
    "*_SALT", "SAS_*", "*_SAS", "SAS", "CRED", "CREDS", "*_CRED", "*_CREDS", "DSN", "PIN", "*_PIN",
    "SESSION_ID",
    "NIX_CONFIG",  // holds access tokens
    // whole families
    "AWS_*", "AZURE_*"};

// curl, pip and wget take a proxy without a scheme too: `user:password@proxy:3128`.
bool is_secret(const EnvVar& var) {
  const auto& [name, value] = var;
  if (is_secret_name(name) || has_password(value)) return true;
  const bool proxy = name.ends_with("_proxy") || name.ends_with("_PROXY");
  return proxy && name != "no_proxy" && name != "NO_PROXY" && value.find('@') != std::string::npos;
}

// Whether a variable goes to other hosts without being named.
bool goes(const EnvVar& var, EnvPolicy policy, bool in_slurm) {
  const auto& name = var.first;
  switch (policy) {
    case EnvPolicy::none:
      return false;
    case EnvPolicy::all:  // a scheduler's list of devices is not the user's, and wrong on other hosts
      return !in(local_only, name) && !(in_slurm && in(devices, name));
    case EnvPolicy::by_default:
      if (is_setting_of_comm(name)) return true;
      return in(forwarded, name) && !in(devices, name) && !in(local_only, name) && !is_secret(var);
  }
  return false;
}

bool users_own(std::string_view name, bool in_slurm) {
  if (in(local_only, name) || (in_slurm && in(devices, name))) return false;
  return is_secret_name(name) || !in(noise, name);
}

// What the user most likely needs comes first: a credential; then a name that nothing known uses, so that it
// may be made up for this job; then settings of tools.
int order_of(const EnvVar& var) {
  if (in(tools, var.first)) return 2;
  return is_secret(var) ? 0 : 1;
}

}  // namespace

bool names_devices(std::string_view variable) { return in(devices, variable); }

bool is_secret_name(std::string_view name) {
  std::string upper(name);
  for (auto& c : upper) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  for (std::size_t at = 0; (at = upper.find("TOKEN", at)) != std::string::npos; at += 5) {
    if (upper.compare(at, 7, "TOKENIZ") != 0) return true;
  }
  return in(credentials, upper);
}

bool has_password(std::string_view value) {
  // A value may list several URLs.
  for (auto scheme = value.find("://"); scheme != std::string_view::npos;
       scheme = value.find("://", scheme + 3)) {
    const auto authority = value.substr(scheme + 3, value.find_first_of("/?#", scheme + 3) - scheme - 3);
    const auto at = authority.rfind('@');
    if (at == std::string_view::npos) continue;
    // The web knows no bare user names: what stands alone there is a token. `ssh://git@host` is harmless.
    const auto before = value.substr(0, scheme);
    if (authority.substr(0, at).find(':') != std::string_view::npos || before.ends_with("http") ||
        before.ends_with("https"))
      return true;
  }
  return false;
}

ForwardedEnv forward_environment(const std::vector<EnvVar>& mine, EnvPolicy policy, bool this_host_only,
                                 const std::vector<std::string>& exports,
                                 const std::vector<EnvVar>& env_file) {
  const bool in_slurm = find_variable(mine, "SLURM_JOB_ID") != nullptr;
  ForwardedEnv out;
  Env env;
  std::map<std::string, int, std::less<>> stayed;  // those worth a word, and how early in the list
  for (const auto& var : mine) {
    const auto& name = var.first;
    if (is_rank_variable(name) || env.contains(name)) continue;
    if (this_host_only ? policy != EnvPolicy::none : goes(var, policy, in_slurm)) {
      env.emplace(var);
    } else if (policy == EnvPolicy::by_default && users_own(name, in_slurm)) {
      stayed.emplace(name, order_of(var));
    }
  }
  for (const auto& [name, value] : env_file) env[name] = value;

  for (const auto& word : exports) {
    if (const auto equals = word.find('='); equals != std::string::npos && equals > 0) {
      env[word.substr(0, equals)] = word.substr(equals + 1);
      continue;
    }
    const bool pattern = word.find_first_of("*?") != std::string::npos;
    bool found = false;
    for (const auto& [name, value] : mine) {
      if (pattern ? is_rank_variable(name) || !matches_glob(word, name) : name != word) continue;
      env[name] = value;
      found = true;
      if (!pattern) break;
    }
    if (!found && !env.contains(word)) out.missing.push_back(word);
  }
  for (int order = 0; order <= 2; ++order) {
    for (const auto& [name, its] : stayed)
      if (its == order && !env.contains(name)) out.left_behind.push_back(name);
  }
  out.env.assign(env.begin(), env.end());
  return out;
}

}  // namespace trainrun::core
