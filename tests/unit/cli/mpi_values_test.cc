// Values of mpirun's and mpiexec's options that decide where ranks go, what they find and how hosts are
// reached.
#include <doctest/doctest.h>

#include "cli/elastic.h"
#include "cli/program.h"
#include "tests/unit/cli/world.h"

using namespace trainrun;
using namespace trainrun::cli;

namespace {

// The host of each rank, in the order of ranks.
std::string seats_of(World& world, Words words) {
  const auto job = job_of(world, std::move(words));
  const auto placed = first_world(job);
  REQUIRE(placed.has_value());
  std::string out;
  for (const auto& seat : placed->seats) out += job.hosts.hosts[seat.host.value].name + " ";
  return out;
}

}  // namespace

TEST_CASE("Hydra's options that take the environment away leave PATH, by which programs are found") {
  for (const Words& words :
       {Words{"-genvlist", "FOO"}, Words{"-genvnone"}, Words{"-envlist", "FOO"}, Words{"-envnone"}}) {
    CAPTURE(words.front());
    for (const Words& hosts : {Words{}, Words{"-hosts", "a,b"}}) {
      World world = called("mpiexec.hydra", {{"FOO", "1"}});
      Words line = words;
      line.insert(line.end(), hosts.begin(), hosts.end());
      line.insert(line.end(), {"-n", "2", "true"});
      const auto job = job_of(world, line);
      CHECK(variable(job.env, "PATH") == "/usr/bin:/bin");
      CHECK(variable(job.env, "HOME").empty());
      CHECK(variable(job.env, "FOO") == (words.size() > 1 ? "1" : ""));
    }
  }
  World world = called("mpiexec.hydra");
  world.executables.insert("/opt/true");
  for (const Words& words :
       {Words{"-genvnone", "-genv", "PATH", "/opt"}, Words{"-genv", "PATH", "/opt", "-genvnone"}}) {
    Words line = words;
    line.insert(line.end(), {"-n", "2", "true"});
    CHECK(variable(job_of(world, line).env, "PATH") == "/opt");
  }
  World bare = called("mpiexec.hydra");
  bare.environment.clear();
  const auto request = bare.read({"-genvnone", "-n", "1", "/bin/true"});
  REQUIRE(request.has_value());
  CHECK(request->notes.empty());
}

TEST_CASE("ranks are numbered as --rank-by says, wherever --map-by puts them") {
  World world = called("mpirun");
  const auto of = [&world](Words words) {
    words.insert(words.begin(), {"-H", "n1:2,n2:2"});
    words.emplace_back("./train");
    return seats_of(world, std::move(words));
  };
  CHECK(of({"--map-by", "node"}) == "n1 n2 n1 n2 ");
  CHECK(of({"--map-by", "node", "--rank-by", "slot"}) == "n1 n1 n2 n2 ");
  CHECK(of({"--map-by", "node", "--rank-by", "core"}) == "n1 n1 n2 n2 ");
  CHECK(of({"-np", "3", "--map-by", "node", "--rank-by", "slot"}) == "n1 n1 n2 ");
  CHECK(of({"--map-by", "slot", "--rank-by", "node"}) == "n1 n2 n1 n2 ");
  CHECK(of({"-np", "3", "--map-by", "slot", "--rank-by", "node"}) == "n1 n2 n1 ");
  CHECK(of({"--rank-by", "NODE"}) == "n1 n2 n1 n2 ");
  CHECK(of({"--map-by", "ppr:2:node", "--rank-by", "node"}) == "n1 n2 n1 n2 ");
  CHECK(of({"--map-by", "slot", "--rank-by", "slot"}) == "n1 n1 n2 n2 ");
  CHECK(of({"--mca", "rmaps_base_ranking_policy", "node"}) == "n1 n2 n1 n2 ");
  CHECK(error_of(world, {"--rank-by", "seq", "./train"}).find("--rank-by 'seq' is not supported") == 0);
  World ours;
  CHECK(seats_of(ours, {"-H", "n1:2,n2:2", "--rank-by", "host", "./train"}) == "n1 n2 n1 n2 ");
}

TEST_CASE("--rank-by numbers the ranks of each of several programs by themselves") {
  World world = called("mpirun");
  CHECK(seats_of(world, {"-H", "n1:2,n2:2", "--rank-by", "node", "-np", "2", "./server", ":", "-np", "2",
                         "./client"}) == "n1 n1 n2 n2 ");
  CHECK(seats_of(world, {"-H", "n1:2,n2:2", "--rank-by", "node", "-np", "3", "./server", ":", "-np", "1",
                         "./client"}) == "n1 n2 n1 n2 ");
  CHECK(seats_of(world, {"-H", "n1:2,n2:2", "--map-by", "node", "--rank-by", "slot", "-np", "3", "./server",
                         ":", "-np", "1", "./client"}) == "n1 n1 n2 n2 ");
}

TEST_CASE("--rank-by goes with places that are counted once: no rank file, no elastic job") {
  World world = called("mpirun");
  world.files["/home/u/RF"] = "rank 0=a\nrank 1=b\n";
  CHECK(error_of(world, {"-rf", "RF", "--rank-by", "node", "./train"})
            .find("-rf and --rank-by both say where ranks run") == 0);
  CHECK(error_of(world, {"-np", "2", "--min-np", "1", "--rank-by", "node", "./train"})
            .find("--rank-by host: the ranks of an elastic job change their places") == 0);
  const auto request =
      world.read({"-H", "a:2,b:2", "--map-by", "node", "--rank-by", "slot", "--print-config", "./train"});
  REQUIRE(request.has_value());
  CHECK(request->text.find("rank_by = \"slot\"") != std::string::npos);
}

TEST_CASE("what Open MPI's parameters say of ssh is obeyed") {
  const auto job = [](const Words& words, std::vector<EnvVar> variables = {}) {
    World world = called("mpirun", std::move(variables));
    Words line = words;
    line.insert(line.end(), {"-H", "a,b", "./train"});
    return job_of(world, line);
  };
  for (const char* args : {"-p 99", "-p99", "-q -x -T -p 99", "-o Port=99", "-o port=99 -o BatchMode=yes",
                           "-oPort=99 -oLogLevel=ERROR"}) {
    CAPTURE(args);
    CHECK(job({"--mca", "plm_rsh_args", args}).ssh.port == 99);
    CHECK(job({}, {{"OMPI_MCA_plm_rsh_args", args}}).ssh.port == 99);
    CHECK(job({}, {{"PRTE_MCA_plm_ssh_args", args}}).ssh.port == 99);
    CHECK(job({"--mca", "plm_rsh_agent", std::string("ssh ") + args}).ssh.port == 99);
  }
  CHECK(job({"--mca", "plm_rsh_args", "-i k -F /dev/null"}).ssh.identity == "/home/u/k");
  CHECK(job({"--mca", "plm_rsh_args", "-i k -F /dev/null"}).ssh.config_file == "/dev/null");
  CHECK(job({"--mca", "plm_rsh_args", "-o IdentityFile=k"}).ssh.identity == "/home/u/k");
  CHECK(job({"--mca", "plm_rsh_agent", "/usr/bin/ssh -p 7"}).ssh.port == 7);
  CHECK(job({"--mca", "plm_rsh_agent", "ssh : rsh"}).ssh.port == 0);
  CHECK(job({"--mca", "plm_rsh_args", "-p 99", "--ssh-port", "7"}).ssh.port == 7);
  for (const char* checking : {"no", "accept-new"})
    CHECK(job({"--mca", "plm_rsh_args", std::string("-o StrictHostKeyChecking=") + checking}).ssh.accept_new);
  CHECK_FALSE(job({"--mca", "plm_rsh_args", "-o StrictHostKeyChecking=yes"}).ssh.accept_new);
  World ours;
  ours.environment.emplace_back("OMPI_MCA_plm_rsh_args", "-p 99");
  CHECK(job_of(ours, {"-H", "a", "./train"}).ssh.port == 0);
  World world = called("mpirun");
  const auto request = world.read({"--mca", "plm_rsh_agent", "ssh", "-H", "a,b", "./train"});
  REQUIRE(request.has_value());
  CHECK(request->notes.empty());
}

TEST_CASE("what of ssh cannot be had is refused where a host is reached by it, with what to write") {
  const auto error = [](const Words& words, const std::string& hosts, std::vector<EnvVar> variables = {}) {
    World world = called("mpirun", std::move(variables));
    Words line = words;
    line.insert(line.end(), {"-H", hosts, "./train"});
    return error_of(world, line);
  };
  const std::string file = "into a file for --ssh-config";
  for (const auto& [args, wrong] :
       {std::pair("-J gate", "-J"), std::pair("-o ProxyJump=gate", "ProxyJump"), std::pair("-l bob", "-l"),
        std::pair("-p", "-p"), std::pair("-p many", "-p"), std::pair("-o", "-o"), std::pair("host", "host"),
        std::pair("-p 99 -o UserKnownHostsFile=/dev/null", "UserKnownHostsFile")}) {
    CAPTURE(args);
    const auto said = error({"--mca", "plm_rsh_args", args}, "a");
    CHECK(said.find("--mca plm_rsh_args") == 0);
    CHECK(said.find(wrong) != std::string::npos);
    CHECK(said.find(file) != std::string::npos);
    CHECK(error({"--mca", "plm_rsh_args", args}, "localhost") == "no error");
    CHECK(error({}, "a", {{"OMPI_MCA_plm_rsh_args", args}}).find("OMPI_MCA_plm_rsh_args") == 0);
    CHECK(error({}, "localhost", {{"OMPI_MCA_plm_rsh_args", args}}) == "no error");
  }
  CHECK(error({"--mca", "plm_rsh_agent", "rsh"}, "a")
            .find("--mca plm_rsh_agent: 'rsh' is not supported | hosts are reached by ssh") == 0);
  CHECK(error({"--mca", "plm_rsh_agent", "sh"}, "localhost") == "no error");
  const std::vector<EnvVar> rsh = {{"OMPI_MCA_plm_rsh_agent", "rsh"}};
  CHECK(error({}, "a", rsh).find("OMPI_MCA_plm_rsh_agent: 'rsh' is not supported") == 0);
  CHECK(error({"--mca", "plm_rsh_agent", "ssh"}, "a", rsh) == "no error");
  CHECK(error({"--mca", "plm_rsh_args", "-p 99"}, "a", rsh).find("OMPI_MCA_plm_rsh_agent") == 0);
}
