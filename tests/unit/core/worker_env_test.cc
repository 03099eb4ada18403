#include "launcher/core/worker_env.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "launcher/core/binding.h"
#include "launcher/core/dialects.h"
#include "launcher/core/placement.h"

namespace trainrun::core {
namespace {

using Env = std::map<std::string, std::string>;

JobSpec two_hosts() {
  JobSpec job;
  job.id = "0123456789abcdef";
  job.hosts.hosts = {{.name = "gpu1", .slots = 1, .slots_given = true},
                     {.name = "gpu2", .slots = 2, .slots_given = true}};
  job.programs = {Program{{"./train"}, 3, "/work"}};
  return job;
}

WorldFacts world() { return {"10.0.0.1", "29500", "127.0.0.1:4242", "/run/key", "/run/error.2", "10.0.0.2"}; }

wire::HostFacts gpu2() {
  wire::HostFacts facts;
  for (std::uint32_t cpu = 0; cpu < 8; ++cpu) facts.cpus.push_back({cpu, cpu, 0, 0});
  facts.interfaces = {{"lo", "127.0.0.1"}, {"eth0", "10.0.0.2"}, {"ib0", "10.1.0.2"}};
  return facts;
}

Env env_of(const JobSpec& job, std::uint32_t rank, const wire::HostFacts* facts) {
  const auto placement = *place(job, {1});
  auto found = world();
  found.gpus = visible_gpus(job, placement.seats[rank].slot);
  const auto env = worker_env(job, placement, {rank}, found, facts);
  CHECK(std::is_sorted(env.begin(), env.end()));
  return {env.begin(), env.end()};
}

TEST_CASE("a rank gets torchelastic's, DeepSpeed's, PMI's and our variables, and no others") {
  const auto facts = gpu2();
  const Env expected = {{"RANK", "2"},
                        {"WORLD_SIZE", "3"},
                        {"LOCAL_RANK", "1"},
                        {"LOCAL_WORLD_SIZE", "2"},
                        {"GROUP_RANK", "1"},
                        {"GROUP_WORLD_SIZE", "2"},
                        {"ROLE_NAME", "default"},
                        {"ROLE_RANK", "2"},
                        {"ROLE_WORLD_SIZE", "3"},
                        {"MASTER_ADDR", "10.0.0.1"},
                        {"MASTER_PORT", "29500"},
                        {"TORCHELASTIC_RESTART_COUNT", "0"},
                        {"TORCHELASTIC_MAX_RESTARTS", "0"},
                        {"TORCHELASTIC_RUN_ID", "0123456789abcdef"},
                        {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                        {"TORCHELASTIC_ERROR_FILE", "/run/error.2"},
                        {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                        {"NODE_RANK", "1"},
                        {"LOCAL_SIZE", "2"},
                        {"CROSS_RANK", "0"},
                        {"CROSS_SIZE", "1"},
                        {"PMI_FD", "20"},
                        {"PMI_RANK", "2"},
                        {"PMI_SIZE", "3"},
                        {"PMI_HOSTNAME", "10.0.0.2"},
                        {"MPI_LOCALRANKID", "1"},
                        {"MPI_LOCALNRANKS", "2"},
                        {"MPIR_CVAR_PMI_VERSION", "1"},
                        {"MPIR_CVAR_CH3_INTERFACE_HOSTNAME", "10.0.0.2"},
                        {"OMP_NUM_THREADS", "4"},
                        {"PYTHONUNBUFFERED", "1"},
                        {"TRAINRUN_JOB_ID", "0123456789abcdef"},
                        {"TRAINRUN_GENERATION", "1"},
                        {"TRAINRUN_RESTART_COUNT", "0"},
                        {"TRAINRUN_RANK", "2"},
                        {"TRAINRUN_SIZE", "3"},
                        {"TRAINRUN_LOCAL_RANK", "1"},
                        {"TRAINRUN_LOCAL_SIZE", "2"},
                        {"TRAINRUN_CROSS_RANK", "0"},
                        {"TRAINRUN_CROSS_SIZE", "1"},
                        {"TRAINRUN_HOST", "gpu2"},
                        {"TRAINRUN_RENDEZVOUS", "127.0.0.1:4242"},
                        {"TRAINRUN_KEY_FILE", "/run/key"},
                        {"TRAINRUN_ADDRESS", "10.0.0.2"}};
  CHECK(env_of(two_hosts(), 2, &facts) == expected);
}

TEST_CASE("what the user set is kept, but for the rank variables") {
  auto job = two_hosts();
  job.env = {{"MASTER_PORT", "5"},
             {"NCCL_ASYNC_ERROR_HANDLING", "0"},
             {"OMP_NUM_THREADS", "7"},
             {"PYTHONUNBUFFERED", ""},
             {"RANK", "9"},
             {"ROLE_NAME", "eval"}};
  const auto facts = gpu2();
  const auto env = env_of(job, 0, &facts);
  for (const auto* name : {"MASTER_PORT", "NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ASYNC_ERROR_HANDLING",
                           "OMP_NUM_THREADS", "PYTHONUNBUFFERED", "ROLE_NAME"}) {
    CHECK_MESSAGE(!env.contains(name), name);
  }
  CHECK(env.at("RANK") == "0");
}

TEST_CASE("--role and --virtual-local-rank tell what torchrun tells") {
  auto job = two_hosts();
  job.env = {{"ROLE_NAME", "eval"}};
  job.role = "trainer";
  job.virtual_local_rank = true;
  const auto env = env_of(job, 2, nullptr);
  CHECK(env.at("ROLE_NAME") == "trainer");
  CHECK(env.at("LOCAL_RANK") == "0");
  CHECK(env.at("LOCAL_WORLD_SIZE") == "2");
  CHECK(env.at("TRAINRUN_LOCAL_RANK") == "1");
}

TEST_CASE("a part's own variables win over the job's and over our defaults, not over the rank variables") {
  auto job = two_hosts();
  job.env = {{"A", "job"}, {"B", "job"}};
  job.programs[0].env = {
      {"A", "part"}, {"B", "job"}, {"OMP_NUM_THREADS", "3"}, {"WORLD_SIZE", "1000"}, {"TRAINRUN_RANK", "7"}};
  const auto env = env_of(job, 1, nullptr);
  CHECK(env.at("A") == "part");
  CHECK_FALSE(env.contains("B"));  // it is not another value
  CHECK(env.at("OMP_NUM_THREADS") == "3");
  CHECK(env.at("WORLD_SIZE") == "3");
  CHECK(env.at("TRAINRUN_RANK") == "1");
}

TEST_CASE("only the ranks of an MPMD part get its variables") {
  auto job = two_hosts();
  job.programs = {Program{{"./server"}, 1, "/work", {{"ROLE", "server"}}},
                  Program{{"./client"}, 2, "/work", {{"ROLE", "client"}}}};
  CHECK(env_of(job, 0, nullptr).at("ROLE") == "server");
  CHECK(env_of(job, 2, nullptr).at("ROLE") == "client");
}

TEST_CASE("threads are a fair share of the cores, at least one, or what the binding gives") {
  auto job = two_hosts();
  auto facts = gpu2();
  CHECK(env_of(job, 0, &facts).at("OMP_NUM_THREADS") == "8");
  facts.quota_millicores = 1000;
  CHECK(env_of(job, 1, &facts).at("OMP_NUM_THREADS") == "1");
  CHECK(env_of(job, 1, nullptr).at("OMP_NUM_THREADS") == "<usable cores of gpu2 / 2, at least 1>");
  job.bind_to = BindTo::core;
  CHECK(env_of(job, 1, nullptr).at("OMP_NUM_THREADS") == "1");
  job.cpus_per_rank = 6;
  CHECK(env_of(job, 1, nullptr).at("OMP_NUM_THREADS") == "6");
}

TEST_CASE("Gloo is told its interface where the host calls itself 127.x and has peers elsewhere") {
  auto job = two_hosts();
  auto facts = gpu2();
  CHECK_FALSE(env_of(job, 1, &facts).contains("GLOO_SOCKET_IFNAME"));
  facts.name_is_loopback = true;
  CHECK(env_of(job, 1, &facts).at("GLOO_SOCKET_IFNAME") == "eth0");
  CHECK_FALSE(env_of(job, 1, &facts).contains("NCCL_SOCKET_IFNAME"));
  CHECK(env_of(job, 1, nullptr).at("GLOO_SOCKET_IFNAME") ==
        "<interface of its address, if gpu2 calls itself 127.x>");

  auto alone = job;
  alone.programs[0].np = 1;
  CHECK_FALSE(env_of(alone, 0, &facts).contains("GLOO_SOCKET_IFNAME"));
  CHECK_FALSE(env_of(alone, 0, nullptr).contains("GLOO_SOCKET_IFNAME"));

  alone.elastic.on_failure = OnFailure::automatic;  // others may join it, on the other host
  CHECK(env_of(alone, 0, &facts).at("GLOO_SOCKET_IFNAME") == "eth0");

  job.env = {{"GLOO_SOCKET_IFNAME", "ib0"}};
  CHECK_FALSE(env_of(job, 1, &facts).contains("GLOO_SOCKET_IFNAME"));
}

TEST_CASE("--network-interface names the interface for Gloo and NCCL, unless the user did") {
  auto job = two_hosts();
  job.network_interface = "ib0";
  job.env = {{"NCCL_SOCKET_IFNAME", "eth9"}};
  const auto env = env_of(job, 0, nullptr);
  CHECK(env.at("GLOO_SOCKET_IFNAME") == "ib0");
  CHECK_FALSE(env.contains("NCCL_SOCKET_IFNAME"));
}

TEST_CASE("--network-interface reaches MPI programs of each kind that is served") {
  auto job = two_hosts();
  job.network_interface = "ib0";
  job.compat = Compat::open_mpi;
  auto env = env_of(job, 0, nullptr);
  for (const auto* name : {"OMPI_MCA_btl_tcp_if_include", "FI_TCP_IFACE", "UCX_NET_DEVICES"})
    CHECK(env.at(name) == "ib0");
  job.compat = Compat::mpich;
  env = env_of(job, 0, nullptr);
  CHECK_FALSE(env.contains("OMPI_MCA_btl_tcp_if_include"));
  CHECK(env.at("UCX_NET_DEVICES") == "ib0");
  job.env = {{"UCX_NET_DEVICES", "mlx5_0:1"}};
  CHECK_FALSE(env_of(job, 0, nullptr).contains("UCX_NET_DEVICES"));
  job.compat = Compat::none;
  CHECK_FALSE(env_of(job, 0, nullptr).contains("FI_TCP_IFACE"));
}

TEST_CASE("where there is a proxy, loopback is not reached by it") {
  auto job = two_hosts();
  CHECK_FALSE(env_of(job, 0, nullptr).contains("no_proxy"));
  job.env = {{"NO_PROXY", "127.0.0.1"}, {"http_proxy", "http://proxy:3128"}, {"no_proxy", ".corp"}};
  const auto env = env_of(job, 0, nullptr);
  CHECK(env.at("no_proxy") == ".corp,127.0.0.1");
  CHECK_FALSE(env.contains("NO_PROXY"));
}

TEST_CASE("--gpus-per-rank shows each rank its own GPUs, by both vendors' names") {
  auto job = two_hosts();
  CHECK_FALSE(env_of(job, 2, nullptr).contains("CUDA_VISIBLE_DEVICES"));
  job.gpus_per_rank = 2;
  CHECK(env_of(job, 2, nullptr).at("CUDA_VISIBLE_DEVICES") == "2,3");
  CHECK(env_of(job, 2, nullptr).at("HIP_VISIBLE_DEVICES") == "2,3");
  CHECK(env_of(job, 1, nullptr).at("CUDA_VISIBLE_DEVICES") == "0,1");
}

TEST_CASE("with --compat none, and in a world that holds survivors, nobody is told of PMI") {
  auto job = two_hosts();
  auto with_survivors = world();
  with_survivors.all_new = false;
  CHECK(offers_pmi(job, world()));
  CHECK_FALSE(offers_pmi(job, with_survivors));
  const auto env = worker_env(job, *place(job, {2}), {0}, with_survivors, nullptr);
  const auto is_pmi = [](const auto& var) {
    return var.first.starts_with("PMI_") || var.first.starts_with("MPI");
  };
  CHECK(std::none_of(env.begin(), env.end(), is_pmi));
  job.compat = Compat::none;
  CHECK_FALSE(offers_pmi(job, world()));
  const auto plain = env_of(job, 0, nullptr);
  CHECK(std::none_of(plain.begin(), plain.end(), is_pmi));
}

TEST_CASE("where a host serves PMIx its ranks get what Open MPI and its scripts want") {
  auto job = two_hosts();
  job.id = "0123456789abcdef";
  auto served = world();
  const auto env_of_2 = [&] {
    std::map<std::string, std::string> env;
    for (auto& [name, value] : worker_env(job, *place(job, {2}), {2}, served, nullptr)) env[name] = value;
    return env;
  };
  const auto is_theirs = [](const auto& var) {
    return var.first.starts_with("OMPI_") || var.first.starts_with("PMIX_");
  };
  const auto plain = env_of_2();
  CHECK(std::none_of(plain.begin(), plain.end(), is_theirs));
  served.pmix_everywhere = true;
  const auto env = env_of_2();
  CHECK(env.at("OMPI_MCA_schizo") == "^orte,slurm,alps,jsm,flux");
  CHECK(env.at("PMIX_MCA_gds") == "hash");
  CHECK(env.at("OMPI_COMM_WORLD_RANK") == "2");
  CHECK(env.at("OMPI_COMM_WORLD_SIZE") == env.at("WORLD_SIZE"));
  CHECK(env.at("OMPI_COMM_WORLD_LOCAL_RANK") == env.at("LOCAL_RANK"));
  CHECK(env.at("OMPI_MCA_orte_precondition_transports") == "0123456789abcdef-0123456789abcdef");
  CHECK(env.at("PMI_RANK") == "2");
  for (const auto& [name, value] : env)
    if (name.starts_with("OMPI_COMM_WORLD_")) CHECK_MESSAGE(is_rank_variable(name), name);

  CHECK_FALSE(env.contains("OMPI_MCA_mpi_ft_enable"));
  job.elastic.on_failure = OnFailure::ignore;
  CHECK(env_of_2().at("OMPI_MCA_mpi_ft_enable") == "1");
  job.elastic.on_failure = OnFailure::abort;

  job.env = {{"OMPI_MCA_schizo", "slurm"}};
  CHECK_FALSE(env_of_2().contains("OMPI_MCA_schizo"));
  job.env.clear();
  auto with_survivors = served;
  with_survivors.all_new = false;
  CHECK_FALSE(offers_pmix(job, with_survivors));
  job.compat = Compat::mpich;
  CHECK_FALSE(offers_pmix(job, served));
  job.compat = Compat::none;
  CHECK_FALSE(offers_pmix(job, served));
  job.compat = Compat::open_mpi;
  CHECK(offers_pmix(job, world()));
  CHECK_FALSE(offers_pmi(job, world()));
}

TEST_CASE("settings of PMIx are the user's, and what a launcher says to one process is not handed on") {
  CHECK_FALSE(is_rank_variable("PMIX_MCA_ptl_base_verbose"));
  for (const auto* const theirs : {"PMIX_RANK", "PMIX_NAMESPACE", "PMIX_SERVER_URI41", "PMIX_SERVER_TMPDIR",
                                   "PMIX_DSTORE_21_BASE_PATH", "SLURM_STEP_ID", "SLURM_PROCID"})
    CHECK_MESSAGE(is_rank_variable(theirs), theirs);
}

TEST_CASE("MPI is told the address of its host only where it has to reach others, unless the user says it") {
  auto job = two_hosts();
  job.env = {{"PMI_HOSTNAME", "ib0.gpu2"}};
  CHECK_FALSE(env_of(job, 2, nullptr).contains("PMI_HOSTNAME"));
  CHECK(env_of(job, 2, nullptr).contains("MPIR_CVAR_CH3_INTERFACE_HOSTNAME"));
  job.programs[0].np = 1;
  CHECK_FALSE(env_of(job, 0, nullptr).contains("MPIR_CVAR_CH3_INTERFACE_HOSTNAME"));
}

TEST_CASE("members of an elastic job wait for their next place for longer than the launcher does") {
  auto job = two_hosts();
  CHECK_FALSE(env_of(job, 2, nullptr).contains("TRAINRUN_ELASTIC_TIMEOUT"));
  CHECK(is_always_set("TRAINRUN_ELASTIC_TIMEOUT"));
  job.elastic.on_failure = OnFailure::automatic;
  job.elastic.timeout = std::chrono::hours(6);
  CHECK(env_of(job, 2, nullptr).at("TRAINRUN_ELASTIC_TIMEOUT") == "21660");
}

TEST_CASE("all that is always set is scrubbed from what ranks inherit") {
  for (const auto& [name, value] : env_of(two_hosts(), 2, nullptr))
    if (is_always_set(name)) CHECK_MESSAGE(is_rank_variable(name), name);
}

TEST_CASE("what is always set is what a part's own variables cannot change, and the agent's number") {
  auto job = two_hosts();
  job.gpus_per_rank = 1;
  const auto before = env_of(job, 2, nullptr);
  for (const auto& [name, value] : before) job.programs[0].env.emplace_back(name, "mine");
  for (const auto& [name, value] : env_of(job, 2, nullptr))
    CHECK_MESSAGE(is_always_set(name) == (value != "mine"), name);
  CHECK(is_always_set("TRAINRUN_WORKER"));
  CHECK_FALSE(is_always_set("TRAINRUN_GRACE"));
}

// worker-0:1,worker-1:2 of Horovod's own tests.
TEST_CASE("Horovod's ranks get what horovodrun gives them, where its rendezvous is offered") {
  const auto job = two_hosts();
  const auto facts = gpu2();
  auto there = world();
  const auto of = [&](std::uint32_t rank, const JobSpec& spec) {
    const auto env = worker_env(spec, *place(spec, {1}), {rank}, there, &facts);
    Env horovod;
    for (const auto& [name, value] : env)
      if (name.starts_with("HOROVOD_")) horovod[name.substr(8)] = value;
    return horovod;
  };
  CHECK(of(0, job).empty());
  there.horovod_port = "4343";
  Env expected = {{"HOSTNAME", "gpu1"},
                  {"RANK", "0"},
                  {"SIZE", "3"},
                  {"LOCAL_RANK", "0"},
                  {"LOCAL_SIZE", "1"},
                  {"CROSS_RANK", "0"},
                  {"CROSS_SIZE", "2"},
                  {"CONTROLLER", "gloo"},
                  {"CPU_OPERATIONS", "gloo"},
                  {"GLOO_IFACE", "eth0"},
                  {"GLOO_RENDEZVOUS_ADDR", "127.0.0.1"},
                  {"GLOO_RENDEZVOUS_PORT", "4343"}};
  CHECK(of(0, job) == expected);
  expected["HOSTNAME"] = "gpu2", expected["RANK"] = "1", expected["LOCAL_SIZE"] = "2";
  expected["CROSS_RANK"] = "1";
  CHECK(of(1, job) == expected);
  expected["RANK"] = "2", expected["LOCAL_RANK"] = "1", expected["CROSS_RANK"] = "0",
  expected["CROSS_SIZE"] = "1";
  CHECK(of(2, job) == expected);

  // Settings are the user's, a rank's place is ours.
  auto set = job;
  set.env = {{"HOROVOD_CONTROLLER", "mpi"}, {"HOROVOD_GLOO_IFACE", "ib0"}};
  set.programs[0].env = {{"HOROVOD_RANK", "77"}};
  expected.erase("CONTROLLER"), expected.erase("GLOO_IFACE");
  CHECK(of(2, set) == expected);
  set = job;
  set.network_interface = "ib0";
  CHECK(of(2, set).at("GLOO_IFACE") == "ib0");
  set.network_interface.clear();
  there.address = "192.0.2.7";  // of a gateway before the host
  CHECK_FALSE(of(2, set).contains("GLOO_IFACE"));
  set.programs[0].np = 1;
  CHECK(of(0, set).at("GLOO_IFACE") == "lo");
}

}  // namespace
}  // namespace trainrun::core
