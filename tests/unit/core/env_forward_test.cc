#include "launcher/core/env_forward.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "launcher/core/dialects.h"

namespace trainrun::core {
namespace {

using Names = std::vector<std::string>;

std::map<std::string, std::string> mapped(const ForwardedEnv& forwarded) {
  CHECK(std::is_sorted(forwarded.env.begin(), forwarded.env.end()));
  return {forwarded.env.begin(), forwarded.env.end()};
}

Names names(const ForwardedEnv& forwarded) {
  Names out;
  for (const auto& [name, value] : forwarded.env) out.push_back(name);
  return out;
}

const std::vector<EnvVar> login = {{"PATH", "/bin"},
                                   {"HOME", "/home/me"},
                                   {"TERM", "xterm"},
                                   {"LS_COLORS", "x"},
                                   {"SSH_AUTH_SOCK", "/tmp/s"},
                                   {"XDG_RUNTIME_DIR", "/run/user/1"},
                                   {"LANG", "C.UTF-8"},
                                   {"LC_NUMERIC", "C"},
                                   {"VIRTUAL_ENV", "/venv"},
                                   {"CONDA_PREFIX", "/conda"},
                                   {"NCCL_DEBUG", "INFO"},
                                   {"HF_HOME", "/hf"},
                                   {"HF_TOKEN", "hf_x"},
                                   {"WANDB_API_KEY", "k"},
                                   {"MY_DATA", "/data"},
                                   {"CUDA_VISIBLE_DEVICES", "1"},
                                   {"https_proxy", "http://proxy:3128"},
                                   {"HTTP_PROXY", "http://me:pw@proxy:3128"},
                                   {"RANK", "3"},
                                   {"MASTER_ADDR", "old"},
                                   {"TRAINRUN_TIMEOUT", "5"}};

TEST_CASE("a job on this host alone inherits everything but rank variables") {
  const auto forwarded = forward_environment(login, EnvPolicy::by_default, true, {}, {});
  CHECK(forwarded.env.size() == login.size() - 3);
  CHECK(mapped(forwarded).at("WANDB_API_KEY") == "k");
  CHECK(forwarded.left_behind.empty());
}

TEST_CASE("with other hosts the listed variables go, credentials and this login's do not") {
  const auto forwarded = forward_environment(login, EnvPolicy::by_default, false, {}, {});
  CHECK(names(forwarded) == Names{"CONDA_PREFIX", "HF_HOME", "LANG", "LC_NUMERIC", "NCCL_DEBUG", "PATH",
                                  "VIRTUAL_ENV", "https_proxy"});
  CHECK(forwarded.left_behind ==
        Names{"HF_TOKEN", "HTTP_PROXY", "WANDB_API_KEY", "CUDA_VISIBLE_DEVICES", "MY_DATA"});
}

// The environment of a new user's machine, where the two names that counted were hidden behind "15 more".
TEST_CASE("of what stayed here credentials are named first, then names made up for the job, tools last") {
  std::vector<EnvVar> many = login;
  for (const auto* name : {"AWS_CA_BUNDLE", "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", "CLOUD_SDK_VERSION",
                           "CONTAINER_NAME", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "HTTPLIB2_CA_CERTS",
                           "IS_SANDBOX", "NODE_EXTRA_CA_CERTS", "PIP_CERT", "PIP_DEFAULT_TIMEOUT",
                           "REQUESTS_CA_BUNDLE", "RUSTUP_AUTO_INSTALL", "SSL_CERT_FILE", "TOX_OVERRIDE"})
    many.emplace_back(name, "x");
  const auto left = forward_environment(many, EnvPolicy::by_default, false, {}, {}).left_behind;
  CHECK(Names(left.begin(), left.begin() + 5) ==
        Names{"HF_TOKEN", "HTTP_PROXY", "WANDB_API_KEY", "CUDA_VISIBLE_DEVICES", "MY_DATA"});
  CHECK(left.size() == 20);
  for (const auto* noise : {"LS_COLORS", "XDG_RUNTIME_DIR", "SSH_AUTH_SOCK", "TERM"})
    CHECK_MESSAGE(std::find(left.begin(), left.end(), noise) == left.end(), noise);
}

TEST_CASE("settings of programs on comm go to the ranks, here and elsewhere; the launcher's own do not") {
  const std::vector<EnvVar> mine = {{"TRAINRUN_COMM_LIBRARY", "/opt/libtrainrun_comm.so.0"},
                                    {"TRAINRUN_COMM_BACKEND", "shm"},
                                    {"TRAINRUN_INIT_TIMEOUT", "5m"},
                                    {"TRAINRUN_OP_TIMEOUT", "1m"},
                                    {"TRAINRUN_NCCL_LIB", "/opt/libnccl.so.2"},
                                    {"TRAINRUN_CUDA_LIB", "/opt/libcuda.so.1"},
                                    {"TRAINRUN_NCCL_ABORT_TIMEOUT", "20"},
                                    {"TRAINRUN_FUSION_BYTES", "1000000"},
                                    {"TRAINRUN_TIMEOUT", "5"}};
  for (const bool alone : {true, false}) {
    CHECK(names(forward_environment(mine, EnvPolicy::by_default, alone, {}, {})) ==
          Names{"TRAINRUN_COMM_BACKEND", "TRAINRUN_COMM_LIBRARY", "TRAINRUN_CUDA_LIB",
                "TRAINRUN_FUSION_BYTES", "TRAINRUN_INIT_TIMEOUT", "TRAINRUN_NCCL_ABORT_TIMEOUT",
                "TRAINRUN_NCCL_LIB", "TRAINRUN_OP_TIMEOUT"});
  }
  CHECK(names(forward_environment(mine, EnvPolicy::all, false, {}, {})).size() == 8);
}

TEST_CASE("--env all takes all but rank variables and what describes this host") {
  const auto forwarded = forward_environment(login, EnvPolicy::all, false, {}, {});
  CHECK(names(forwarded) == Names{"CONDA_PREFIX", "CUDA_VISIBLE_DEVICES", "HF_HOME", "HF_TOKEN", "HTTP_PROXY",
                                  "LANG", "LC_NUMERIC", "LS_COLORS", "MY_DATA", "NCCL_DEBUG", "PATH", "TERM",
                                  "VIRTUAL_ENV", "WANDB_API_KEY", "https_proxy"});
  CHECK(forwarded.left_behind.empty());
}

TEST_CASE("functions of bash go to other hosts with --env all, or named, as `module` must") {
  const std::vector<EnvVar> mine = {{"BASH_FUNC_module%%", "() { :; }"}, {"PATH", "/bin"}};
  CHECK(names(forward_environment(mine, EnvPolicy::all, false, {}, {})) ==
        Names{"BASH_FUNC_module%%", "PATH"});
  CHECK(names(forward_environment(mine, EnvPolicy::by_default, false, {}, {})) == Names{"PATH"});
  CHECK(names(forward_environment(mine, EnvPolicy::none, false, {"BASH_FUNC_module%%"}, {})) ==
        Names{"BASH_FUNC_module%%"});
}

TEST_CASE("--env none takes nothing but what is named") {
  for (const bool alone : {true, false}) {
    const auto forwarded = forward_environment(login, EnvPolicy::none, alone, {"PATH"}, {{"FROM_FILE", "1"}});
    CHECK(names(forwarded) == Names{"FROM_FILE", "PATH"});
    CHECK(forwarded.left_behind.empty());
  }
}

TEST_CASE("what -x names always goes, credential, rank variable or not") {
  const auto forwarded = forward_environment(
      login, EnvPolicy::by_default, false,
      {"WANDB_API_KEY", "MASTER_ADDR", "HOME", "TRAINRUN_TIMEOUT", "NEW=a=b", "EMPTY="}, {});
  const auto env = mapped(forwarded);
  CHECK(env.at("WANDB_API_KEY") == "k");
  CHECK(env.at("MASTER_ADDR") == "old");
  CHECK(env.at("HOME") == "/home/me");
  CHECK(env.at("TRAINRUN_TIMEOUT") == "5");
  CHECK(env.at("NEW") == "a=b");
  CHECK(env.at("EMPTY").empty());
  CHECK(forwarded.left_behind == Names{"HF_TOKEN", "HTTP_PROXY", "CUDA_VISIBLE_DEVICES", "MY_DATA"});
}

TEST_CASE("a -x pattern takes credentials, but no rank variables") {
  const auto forwarded =
      forward_environment(login, EnvPolicy::by_default, false, {"W*", "R?NK", "TRAINRUN_*"}, {});
  CHECK(mapped(forwarded).contains("WANDB_API_KEY"));
  CHECK_FALSE(mapped(forwarded).contains("RANK"));
  CHECK(forwarded.missing == Names{"R?NK", "TRAINRUN_*"});
}

TEST_CASE("a -x name that is not set here is reported as missing, unless a file gave it") {
  const auto forwarded = forward_environment(login, EnvPolicy::by_default, false,
                                             {"NOT_SET", "FROM_FILE", "=x"}, {{"FROM_FILE", "1"}});
  CHECK(forwarded.missing == Names{"NOT_SET", "=x"});
}

TEST_CASE("-x wins over the file, and the file over what is inherited") {
  const auto forwarded =
      forward_environment(login, EnvPolicy::by_default, false, {"B=x"}, {{"PATH", "/file"}, {"B", "file"}});
  CHECK(mapped(forwarded).at("PATH") == "/file");
  CHECK(mapped(forwarded).at("B") == "x");
}

TEST_CASE("inside a Slurm job the job's name goes, the task's number and this host's devices do not") {
  const std::vector<EnvVar> slurm = {
      {"SLURM_JOB_ID", "7"},    {"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_PROCID", "0"},
      {"SLURM_NTASKS", "8"},    {"SLURM_STEP_NODELIST", "n1"},    {"SLURM_ARRAY_TASK_ID", "3"},
      {"PMIX_RANK", "0"},       {"CUDA_VISIBLE_DEVICES", "2,3"},  {"ROCR_VISIBLE_DEVICES", "2,3"},
      {"SLURM_TMPDIR", "/tmp"}, {"SLURM_CPUS_PER_TASK", "2"}};
  const auto forwarded = forward_environment(slurm, EnvPolicy::by_default, false, {}, {});
  CHECK(names(forwarded) == Names{"SLURM_ARRAY_TASK_ID", "SLURM_CPUS_PER_TASK", "SLURM_JOB_ID"});
  CHECK(forwarded.left_behind.empty());
  CHECK_FALSE(
      mapped(forward_environment(slurm, EnvPolicy::all, false, {}, {})).contains("CUDA_VISIBLE_DEVICES"));

  const auto alone = mapped(forward_environment(slurm, EnvPolicy::by_default, true, {}, {}));
  CHECK(alone.contains("CUDA_VISIBLE_DEVICES"));
  CHECK(alone.contains("SLURM_JOB_NODELIST"));
  CHECK_FALSE(alone.contains("SLURM_PROCID"));
}

TEST_CASE("what describes a job of PBS, LSF or Grid Engine goes, its task and its files do not") {
  const std::vector<EnvVar> batch = {
      {"PBS_JOBID", "5.s"}, {"PBS_ARRAY_INDEX", "7"}, {"PBS_O_WORKDIR", "/x"},    {"PBS_NODEFILE", "/f"},
      {"PBS_TASKNUM", "1"}, {"LSB_JOBINDEX", "9"},    {"LSB_DJOB_HOSTFILE", "f"}, {"SGE_TASK_ID", "9"},
      {"JOB_ID", "5"},      {"PE_HOSTFILE", "/p"}};
  CHECK(names(forward_environment(batch, EnvPolicy::by_default, false, {}, {})) ==
        Names{"JOB_ID", "LSB_JOBINDEX", "PBS_ARRAY_INDEX", "PBS_JOBID", "PBS_O_WORKDIR", "SGE_TASK_ID"});
}

TEST_CASE(
    "credentials stay here also in a list of URLs, in a proxy without a scheme, and in Nix's settings") {
  const std::vector<EnvVar> mine = {{"NIX_CONFIG", "access-tokens = github.com=x"},
                                    {"http_proxy", "bob:pw@proxy:3128"},
                                    {"CONDA_CHANNELS", "https://conda/x,https://bob:pw@conda/main"},
                                    {"no_proxy", "a@b,c"},
                                    {"https_proxy", "proxy:3128"}};
  const auto forwarded = forward_environment(mine, EnvPolicy::by_default, false, {}, {});
  CHECK(names(forwarded) == Names{"https_proxy", "no_proxy"});
  CHECK(forwarded.left_behind == Names{"CONDA_CHANNELS", "NIX_CONFIG", "http_proxy"});
}

TEST_CASE("rank variables of every launcher are known, settings of libraries are none") {
  for (const auto* name : {"RANK",
                           "WORLD_SIZE",
                           "LOCAL_RANK",
                           "LOCAL_WORLD_SIZE",
                           "GROUP_RANK",
                           "ROLE_RANK",
                           "NODE_RANK",
                           "MASTER_ADDR",
                           "MASTER_PORT",
                           "TORCHELASTIC_RUN_ID",
                           "HOROVOD_RANK",
                           "HOROVOD_GLOO_RENDEZVOUS_ADDR",
                           "PMI_RANK",
                           "PMIX_NAMESPACE",
                           "I_MPI_PMI_LIBRARY",
                           "HYDI_CONTROL_FD",
                           "PBS_TASKNUM",
                           "LSF_PM_TASKID",
                           "FLUX_TASK_RANK",
                           "OMPI_COMM_WORLD_RANK",
                           "OMPI_MCA_orte_hnp_uri",
                           "MV2_COMM_WORLD_RANK",
                           "SLURM_PROCID",
                           "SLURM_LOCALID",
                           "SLURM_NODEID",
                           "SLURM_NTASKS",
                           "SLURM_NTASKS_PER_NODE",
                           "SLURM_STEP_ID",
                           "TRAINRUN_RANK",
                           "TRAINRUN_ANYTHING"}) {
    CHECK_MESSAGE(is_rank_variable(name), name);
  }
  for (const auto* name :
       {"RANKING", "MY_RANK", "HOROVOD_FUSION_THRESHOLD", "OMPI_MCA_btl", "SLURM_JOB_ID", "PBS_JOBID",
        "LSB_JOBID", "I_MPI_FABRICS", "MPIR_CVAR_DEVICE", "SLURM_TASKS_PER_NODE", "NCCL_DEBUG", "PATH", ""}) {
    CHECK_MESSAGE(!is_rank_variable(name), name);
  }
}

TEST_CASE("what is called as credentials often are is one, and what only sounds so is none") {
  for (const auto* name :
       {"API_KEYS", "MY_JWT", "BEARER", "COOKIE", "PAT", "PGPASS", "SLACK_WEBHOOK_URL", "SAS_URL"})
    CHECK(is_secret_name(name));
  for (const auto* name : {"PATH", "KEYBOARD", "PATTERN", "PASSES", "AUTHOR"})
    CHECK_FALSE(is_secret_name(name));
}

TEST_CASE("credentials are known by their names") {
  for (const auto* name :
       {"WANDB_API_KEY", "HF_TOKEN", "hf_token", "GITHUB_TOKEN", "MY_SECRET", "DB_PASSWORD", "PGPASSWORD",
        "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "GOOGLE_APPLICATION_CREDENTIALS",
        "OPENAI_APIKEY", "TOKENS", "TOKENIZER_TOKEN", "SSH_PASSPHRASE"}) {
    CHECK_MESSAGE(is_secret_name(name), name);
  }
  for (const auto* name :
       {"TOKENIZERS_PARALLELISM", "PATH", "KEYBOARD", "MONKEY", "TRAINRUN_KEY_FILE", "NCCL_DEBUG", ""}) {
    CHECK_MESSAGE(!is_secret_name(name), name);
  }
}

TEST_CASE("a URL with a password is told from one without") {
  CHECK(has_password("http://me:pw@proxy:3128"));
  CHECK(has_password("postgres://u:p@h/db?x=1"));
  CHECK(has_password("https://token@github.com/x"));
  CHECK(has_password("--index=https://u:p@h"));
  CHECK(has_password("https://h/x https://u:p@h"));
  for (const auto* value : {"http://proxy:3128", "ssh://git@host/x", "me:pw@host", "", "http://h/a:b@c"}) {
    CHECK_MESSAGE(!has_password(value), value);
  }
}

}  // namespace
}  // namespace trainrun::core
