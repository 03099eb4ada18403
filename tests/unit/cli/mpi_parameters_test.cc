#include "cli/mpi_parameters.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "cli/program.h"
#include "tests/unit/cli/world.h"

using namespace trainrun;
using namespace trainrun::cli;

namespace {

World with_files(const std::string& name, std::vector<EnvVar> variables = {}) {
  auto world = called(name, std::move(variables));
  world.files["/home/u/nodes"] = "node1\nnode1\nnode2\nnode2\n";
  world.files["/home/u/plain"] = "node1\nnode2\n";
  return world;
}

std::string notes_of(World& world, Words words) {
  const auto request = world.read(std::move(words));
  REQUIRE(request.has_value());
  return fmt::format("{}", fmt::join(request->notes, "\n"));
}

std::string places_of(const JobSpec& job) {
  std::string out;
  for (const auto& place : job.rank_file) out += job.hosts.hosts[place.host].name + " ";
  return out;
}

}  // namespace

TEST_CASE("in a host file under mpirun a host named once has its cores, and one named again a slot a line") {
  auto world = with_files("mpirun");
  CHECK(shown(job_of(world, {"-machinefile", "nodes", "/bin/true"})) == "node1:2 node2:2 np 4");
  CHECK(shown(job_of(world, {"-np", "4", "-hostfile", "nodes", "/bin/true"})) == "node1:2 node2:2 np 4");
  CHECK(shown(job_of(world, {"-machinefile", "plain", "/bin/true"})) == "node1:4 node2:4 np 8");
  CHECK(error_of(world, {"-np", "5", "-machinefile", "nodes", "/bin/true"}) ==
        "-np 5 needs 5 slots, the hosts have 4: node1 2, node2 2 | write slots=3 for node1 in nodes, or add "
        "--oversubscribe");
  auto named = with_files("trainrun");
  CHECK(shown(job_of(named, {"--compat-cli", "openmpi", "-machinefile", "nodes", "/bin/true"})) ==
        "node1:2 node2:2 np 4");
  auto hydra = with_files("mpiexec.hydra");
  CHECK(shown(job_of(hydra, {"-f", "nodes", "/bin/true"})) == "node1:2 node2:2 np 4");
}

TEST_CASE("parameters of mpirun that have an option are obeyed as that, by --mca and by the environment") {
  struct Row {
    std::string name, value;
    Words words;
  };
  const Row table[] = {
      {"orte_default_hostfile", "plain", {"-hostfile", "plain"}},
      {"prte_default_hostfile", "plain", {"-hostfile", "plain"}},
      {"rmaps_base_mapping_policy", "node", {"-host", "a:2,b:2", "--map-by", "node"}},
      {"rmaps_default_mapping_policy", "ppr:2:node", {"-host", "a:2,b:2", "--map-by", "ppr:2:node"}},
      {"rmaps_base_n_pernode", "1", {"-host", "a:2,b:2", "-npernode", "1"}},
      {"rmaps_base_pernode", "1", {"-host", "a:2,b:2", "-pernode"}},
      {"rmaps_base_oversubscribe", "1", {"-host", "a", "-np", "2", "--oversubscribe"}},
      {"rmaps_base_oversubscribe", "0", {"-host", "a:2"}},
      {"hwloc_base_binding_policy", "none", {"--bind-to", "none"}},
      {"hwloc_default_binding_policy", "package", {"--bind-to", "socket"}},
      {"hwloc_base_report_bindings", "true", {"--report-bindings"}},
      {"orte_tag_output", "1", {"--tag-output"}},
      {"orte_output_filename", "out", {"--output-filename", "out"}},
  };
  for (const auto& row : table) {
    CAPTURE(row.name);
    Words plain, with_option = row.words;
    const bool hosts = row.words.front() == "-host";
    if (hosts) plain = {row.words[0], row.words[1]};
    if (hosts && row.words.size() > 3 && row.words[2] == "-np") plain.insert(plain.end(), {"-np", "2"});
    Words with_parameter = plain;
    with_parameter.insert(with_parameter.end(), {"--mca", row.name, row.value, "/bin/true"});
    plain.emplace_back("/bin/true");
    with_option.emplace_back("/bin/true");
    auto world = with_files("mpirun.openmpi");
    const auto expected = job_of(world, with_option);
    for (const std::string prefix : {"", "OMPI_MCA_", "PRTE_MCA_"}) {
      auto set = with_files("mpirun.openmpi");
      if (!prefix.empty()) set.environment.emplace_back(prefix + row.name, row.value);
      const auto job = job_of(set, prefix.empty() ? with_parameter : plain);
      CHECK(shown(job) == shown(expected));
      CHECK(job.map_by == expected.map_by);
      CHECK(job.ppr == expected.ppr);
      CHECK(job.oversubscribe == expected.oversubscribe);
      CHECK(job.bind_to == expected.bind_to);
      CHECK(job.report_bindings == expected.report_bindings);
      CHECK(job.tag == expected.tag);
      CHECK(job.output_directory == expected.output_directory);
    }
  }
}

TEST_CASE("variables of mpiexec that have an option are obeyed as that") {
  auto world = with_files("mpiexec", {{"HYDRA_HOST_FILE", "/home/u/plain"},
                                      {"MPIEXEC_TIMEOUT", "7"},
                                      {"HYDRA_IFACE", "eth1"},
                                      {"I_MPI_HYDRA_BOOTSTRAP", "ssh"}});
  auto job = job_of(world, {"-n", "4", "/bin/true"});
  CHECK(shown(job) == "node1:1 node2:1 np 4");
  CHECK(job.timeout == seconds(7));
  CHECK(job.network_interface == "eth1");
  CHECK(shown(job_of(world, {"/bin/true"})) == "node1:1 node2:1 np 2");
  auto own = with_files("trainrun", {{"MPIEXEC_TIMEOUT", "7"}});
  CHECK(notes_of(own, {"-np", "1", "/bin/true"}).find("write --timeout TIME here") != std::string::npos);
  CHECK(notes_of(own, {"-np", "1", "--timeout", "9", "/bin/true"}).empty());
  auto open_mpi = with_files("mpirun", {{"MPIEXEC_TIMEOUT", "7"}, {"HYDRA_HOST_FILE", "/home/u/plain"}});
  job = job_of(open_mpi, {"-np", "1", "/bin/true"});
  CHECK(job.timeout == seconds(7));
  CHECK(shown(job) == "localhost:1 np 1");
}

TEST_CASE("options and TRAINRUN_ variables go before parameters and variables of other launchers") {
  auto hydra = with_files("mpiexec", {{"HYDRA_HOST_FILE", "/home/u/plain"}, {"MPIEXEC_TIMEOUT", "7"}});
  CHECK(shown(job_of(hydra, {"-n", "2", "-hosts", "a,b", "/bin/true"})) == "a:1 b:1 np 2");
  hydra.environment.emplace_back("TRAINRUN_TIMEOUT", "9");
  CHECK(job_of(hydra, {"-n", "2", "/bin/true"}).timeout == seconds(9));
  auto open_mpi = with_files("mpirun", {{"OMPI_MCA_hwloc_base_binding_policy", "none"}});
  CHECK(job_of(open_mpi, {"-np", "1", "--bind-to", "core", "/bin/true"}).bind_to == BindTo::core);
  CHECK(job_of(open_mpi,
               {"-np", "1", "--bind-to", "core", "--mca", "hwloc_base_binding_policy", "socket", "/bin/true"})
            .bind_to == BindTo::core);
  CHECK(job_of(open_mpi, {"-np", "1", "--mca", "hwloc_base_binding_policy", "socket", "/bin/true"}).bind_to ==
        BindTo::socket);
}

TEST_CASE("what the environment asks of another launcher and is not to be had has a line that names it") {
  auto hydra = with_files("mpiexec", {{"I_MPI_HYDRA_BOOTSTRAP", "slurm"}, {"I_MPI_PERHOST", "allcores"}});
  const auto notes = notes_of(hydra, {"-n", "2", "/bin/true"});
  CHECK(notes.find("I_MPI_HYDRA_BOOTSTRAP=slurm has no effect here: hosts are reached by ssh") !=
        std::string::npos);
  CHECK(notes.find("I_MPI_PERHOST=allcores has no effect here") != std::string::npos);
  auto missing = with_files("mpiexec", {{"HYDRA_HOST_FILE", "/nowhere"}});
  CHECK(error_of(missing, {"-n", "2", "/bin/true"}).find("HYDRA_HOST_FILE: /nowhere: No such file") == 0);
  auto trainrun = with_files("trainrun", {{"HYDRA_HOST_FILE", "/nowhere"}});
  CHECK(shown(job_of(trainrun, {"-np", "1", "/bin/true"})) == "localhost:1 np 1");
}

TEST_CASE("mpirun obeys the user's own file of parameters too, beneath the environment") {
  auto world = with_files("mpirun", {{"HOME", "/home/u"}, {"OMPI_MCA_mca_base_env_list", "A=1;B=x=y"}});
  world.files["/home/u/.openmpi/mca-params.conf"] =
      "# mine\nbtl = ^openib\n rmaps_base_mapping_policy=node\nhwloc_base_binding_policy = socket\n";
  auto job = job_of(world, {"-np", "2", "-host", "a:2,b:2", "/bin/true"});
  CHECK(job.map_by == MapBy::host);
  CHECK(job.bind_to == BindTo::socket);
  CHECK(variable(job.env, "A") == "1");
  CHECK(variable(job.env, "B") == "x=y");
  CHECK(variable(job.env, "OMPI_MCA_btl").empty());  // the ranks read it for themselves
  world.environment.emplace_back("OMPI_MCA_hwloc_base_binding_policy", "none");
  CHECK(job_of(world, {"-np", "2", "-host", "a:2,b:2", "/bin/true"}).bind_to == BindTo::none);
  world.files["/home/u/.openmpi/mca-params.conf"] = "hwloc_base_binding_policy = sideways\n";
  world.environment.pop_back();
  CHECK(notes_of(world, {"-np", "1", "/bin/true"})
            .find("~/.openmpi/mca-params.conf: hwloc_base_binding_policy=sideways has no effect here") == 0);
  world.called_as = "trainrun";
  CHECK(notes_of(world, {"-np", "1", "/bin/true"}).empty());
}

TEST_CASE("--timeout 0 is none, and -np 0 of Open MPI's is a rank a slot") {
  auto world = with_files("mpirun");
  CHECK_FALSE(job_of(world, {"-np", "1", "--timeout", "0", "/bin/true"}).timeout.has_value());
  CHECK(shown(job_of(world, {"-np", "0", "-host", "a:2,b", "/bin/true"})) == "a:2 b:1 np 3");
}

TEST_CASE("in an allocation Open MPI's default host file is not read") {
  auto world = with_files("mpirun", {{"OMPI_MCA_orte_default_hostfile", "/home/u/plain"},
                                     {"PBS_JOBID", "1.server"},
                                     {"PBS_NODEFILE", "/home/u/pbs"}});
  world.files["/home/u/pbs"] = "p1\np2\np2\n";
  CHECK(shown(job_of(world, {"/bin/true"})) == "p1:1 p2:2 np 3");
}

TEST_CASE("mpiexec -ppn deals so many consecutive ranks a host, round and round") {
  auto world = with_files("mpiexec");
  CHECK(places_of(job_of(world, {"-n", "4", "-ppn", "1", "-hosts", "a,b", "/bin/true"})) == "a b a b ");
  CHECK(places_of(job_of(world, {"-n", "7", "-ppn", "2", "-hosts", "a,b", "/bin/true"})) == "a a b b a a b ");
  CHECK(job_of(world, {"-n", "4", "-ppn", "2", "-hosts", "a,b", "/bin/true"}).rank_file.empty());
  auto open_mpi = with_files("mpirun.openmpi");
  CHECK(error_of(open_mpi, {"-np", "4", "-npernode", "1", "-host", "a,b", "/bin/true"}) ==
        "4 ranks, and -npernode 1 on 2 hosts makes 2 | write -npernode 2, name more hosts, or add "
        "--oversubscribe");
}

TEST_CASE("overload-allowed alone says nothing") {
  auto world = with_files("mpirun");
  CHECK(notes_of(world, {"-np", "1", "--bind-to", "core:overload-allowed", "/bin/true"}).empty());
}

TEST_CASE("a pair without its second half needs a name and a value") {
  auto world = with_files("mpirun");
  CHECK(error_of(world, {"--mca", "btl"}) == "--mca needs a name and a value | write --mca 'btl' VALUE");
}

TEST_CASE("who names no program reads the name that was called") {
  for (const std::string name : {"mpirun", "horovodrun"}) {
    auto world = with_files(name);
    CHECK(error_of(world, {}).find("write " + name + " [options] program") != std::string::npos);
  }
}
