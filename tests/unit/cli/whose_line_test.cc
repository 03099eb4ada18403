#include "cli/whose_line.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "cli/horovod_signs.h"
#include "tests/unit/cli/world.h"

using namespace trainrun;
using namespace trainrun::cli;

namespace {

using Set = std::set<std::string>;

}  // namespace

TEST_CASE("the name, --compat-cli, the flags and the program say whose line it is") {
  const auto ways = [](World world, Words words) {
    const auto request = world.read(std::move(words));
    REQUIRE(request.has_value());
    return request->job.pty == true ? "openmpi" : request->job.oversubscribe ? "hydra" : "ours";
  };
  CHECK(ways(called("trainrun"), {"./train"}) == std::string("ours"));
  CHECK(ways(called("mpirun"), {"./train"}) == std::string("openmpi"));
  CHECK(ways(called("mpiexec"), {"./train"}) == std::string("hydra"));
  CHECK(ways(called("mpiexec.openmpi"), {"./train"}) == std::string("openmpi"));
  CHECK(ways(called("mpirun.mpich"), {"./train"}) == std::string("hydra"));
  CHECK(ways(called("mpirun"), {"-genv", "A", "1", "./train"}) == std::string("hydra"));
  CHECK(ways(called("mpiexec"), {"--mca", "btl", "tcp,self", "./train"}) == std::string("openmpi"));
  CHECK(ways(called("trainrun"), {"--compat-cli", "hydra", "./train"}) == std::string("hydra"));
  for (const auto* way : {"core", "socket", "node:OVERSUBSCRIBE", "L3cache"})
    CHECK(ways(called("trainrun"), {"--map-by", way, "./train"}) == std::string("openmpi"));
  for (const auto* way : {"slot", "node", "ppr:1:node"})
    CHECK(ways(called("trainrun"), {std::string("--map-by=") + way, "./train"}) == std::string("ours"));
  World ours = called("trainrun");
  CHECK(job_of(ours, {"--bind-to", "hwthread", "./train"}).bind_to == BindTo::core);
  CHECK(job_of(ours, {"--map-by", "ppr:1:node:PE=2", "./train"}).cpus_per_rank == 2);
  CHECK(error_of({"--map-by", "nothing", "./train"}).find("is not slot, host") != std::string::npos);
  CHECK(ways(called("mpirun"), {"--compat-cli=none", "./train"}) == std::string("ours"));
  World world = called("trainrun");
  world.environment.push_back({"TRAINRUN_COMPAT_CLI", "openmpi"});
  CHECK(ways(world, {"./train"}) == std::string("openmpi"));
  world = called("mpirun");
  world.mpi.family = wire::MpiFamily::mpich;
  CHECK(ways(world, {"./train"}) == std::string("hydra"));
  CHECK(error_of({"-np", "2", "--compat-cli", "hydra", "./train"}).find("write it first") !=
        std::string::npos);
  CHECK(error_of({"--compat-cli", "mpd", "./train"}).find("not one of auto") != std::string::npos);
}

TEST_CASE("under an alias an option that only horovodrun has says whose line it is") {
  World plain;  // called by our own name
  CHECK(tuned(plain, {"-np", "2", "--cycle-time-ms", "2.5", "--autotune"}) ==
        Set{"AUTOTUNE=1", "CYCLE_TIME=2.5"});
  CHECK(tuned(plain, {"--host", "a", "-x", "A=--autotune", "--fusion-threshold-mb=2"}) ==
        Set{"FUSION_THRESHOLD=2097152"});
  CHECK(tuned(plain, {"--blacklist-cooldown-range", "5", "60", "--cycle-time-ms", "2.5"}) ==
        Set{"CYCLE_TIME=2.5"});
  CHECK(tuned(plain, {"--mpi"}) == Set{"CONTROLLER=mpi", "CPU_OPERATIONS=mpi"});
  CHECK(tuned(plain, {"--mpi=pmi2"}).empty());  // srun's
  CHECK(job_of(plain, {"--gloo", "./train"}).compat == Compat::horovod);
  // argparse takes the beginning of a name
  CHECK(tuned(plain, {"--fusion-thresh", "2"}) == Set{"FUSION_THRESHOLD=2097152"});
  CHECK(error_of(plain, {"--autotun", "./train"}).find("'--autotun' may be --autotune or") !=
        std::string::npos);
  CHECK(error_of(plain, {"--gloo", "--tieline-filename", "x", "./train"})
            .find("did you mean --timeline-filename?") != std::string::npos);
  CHECK(job_of(plain, {"-np", "2", "./train", "--autotune"}).compat != Compat::horovod);  // the program's own
  CHECK(job_of(plain, {"-vv", "--gloo", "./train"}).verbose == 2);
  CHECK(error_of(plain, {"--cycle-time-ms", "fast", "./train"})
            .find("--cycle-time-ms: 'fast' is not a number") == 0);
  CHECK(error_of(plain, {"--autotune", "--frobnicate", "./train"})
            .find("horovodrun has no option '--frobnicate'") == 0);
  CHECK(
      error_of(plain, {"--compat-cli", "none", "--autotune", "./train"}).find("unknown flag '--autotune'") ==
      0);
  const auto build = plain.read({"--check-build"});
  REQUIRE(build.has_value());
  CHECK(build->action == Action::check_build);
}

TEST_CASE(
    "a program of Horovod's behind options of horovodrun is as under an alias, behind others it is ours") {
  World world;
  world.mpi.horovod = true;
  world.environment.push_back({"LR", "0.5"});
  const auto gets_all = [&](Words words) {
    words.emplace_back("./train");
    const auto job = job_of(world, std::move(words));
    return job.compat == Compat::horovod &&
           std::find(job.env.begin(), job.env.end(), EnvVar{"LR", "0.5"}) != job.env.end();
  };
  CHECK(gets_all({"-np", "2", "-H", "a:1,b:1"}));
  CHECK(gets_all({"-np", "2", "--min-np", "1", "--host-discovery-script", "/bin/true"}));
  // Both have it: here it is an alias, there the beginning of --slots-per-host.
  CHECK(gets_all({"-np", "2", "--slots", "1", "--host-discovery-script", "/bin/true"}));
  CHECK(gets_all({"-np", "2", "--blacklist-cooldown-range", "5", "60", "--host-discovery-script=/bin/true"}));
  CHECK(gets_all({"--blacklist-cooldown-range", "5,60", "-np", "2", "-H", "a:1,b:1"}));
  CHECK_FALSE(gets_all({"-np", "2", "-H", "a:1,b:1", "--ppn", "1"}));
  CHECK_FALSE(gets_all({"-np", "2", "--host", "a:1,b:1"}));  // there of three names
  CHECK_FALSE(gets_all({"-np", "2", "-H", "a:1,b:1", "--grace", "3"}));
  CHECK_FALSE(gets_all({"--compat-cli", "none", "-np", "2", "-H", "a:1,b:1"}));
  world.mpi.horovod = false;
  CHECK_FALSE(gets_all({"-np", "2", "-H", "a:1,b:1"}));
  CHECK_FALSE(gets_all({"-np", "2", "--slots", "1", "--host-discovery-script", "/bin/true"}));
}

TEST_CASE("the program stands behind both values of an option of two") {
  CHECK(program_behind_its_options({"--blacklist-cooldown-range", "5", "60", "./train"}) == 3);
  CHECK(program_behind_its_options({"--blacklist-cooldown-range=5,60", "./train"}) == 1);
  CHECK(program_behind_its_options({"--blacklist-cooldown-range", "5 60", "./train"}) == 2);
  CHECK_FALSE(program_behind_its_options({"--blacklist-cooldown-range", "5"}));
  CHECK_FALSE(program_behind_its_options({"--slots"}));
}

TEST_CASE("under our own name an option that only mpirun or mpiexec has says whose line it is") {
  World plain;
  const auto job = job_of(plain, {"--mca", "btl", "self,tcp", "-np", "2", "./train"});
  CHECK(job.as_mpirun);
  CHECK(std::find(job.env.begin(), job.env.end(), EnvVar{"OMPI_MCA_btl", "self,tcp"}) != job.env.end());
  CHECK_FALSE(job_of(plain, {"-genv", "A", "1", "-n", "2", "./train"}).as_mpirun);  // Hydra's
  CHECK(job_of(plain, {"-genv", "A", "1", "-n", "2", "./train"}).as_mpi_launcher);
  CHECK_FALSE(job_of(plain, {"-np", "2", "./train", "--mca", "a", "b"}).as_mpirun);
  CHECK_FALSE(job_of(plain, {"-np", "2", "./train", "--mca", "a", "b"}).as_mpi_launcher);
  const auto each =
      job_of(plain, {"-n", "1", "-env", "A", "1", "./train", ":", "-n", "1", "-env", "A", "2", "./train"});
  CHECK(each.programs[1].env == std::vector<EnvVar>{{"A", "2"}});
  CHECK(job_of(plain, {"-env", "none", "-np", "2", "./train"}).bind_to == BindTo::none);  // our own --env
  CHECK(
      error_of(plain, {"--compat-cli", "none", "--mca", "a", "b", "./train"}).find("unknown flag '--mca'") ==
      0);
  CHECK(error_of(plain, {"-N", "2", "./train"}).find("unknown flag '-N'") == 0);  // srun's as well
  CHECK(job_of(plain, {"-n", "2", "-rr", "-H", "a,b", "./train"}).map_by == MapBy::host);
  // A value of -launcher that ours does not take.
  CHECK(job_of(plain, {"-n", "2", "-launcher", "fork", "./train"}).transport == TransportKind::local);
  CHECK(job_of(plain, {"-n", "2", "-bootstrap=fork", "./train"}).transport == TransportKind::local);
  CHECK(job_of(plain, {"--launcher", "ssh", "-n", "2", "./train"}).tag == Tag::automatic);
  // Not the beginning of horovodrun's --prefix-output-with-timestamp.
  plain.environment.emplace_back("LD_LIBRARY_PATH", "/lib");
  for (const std::string prefix : {"--prefix", "-prefix"}) {
    const auto set = job_of(plain, {prefix, "/opt/mpi", "-np", "2", "./train"});
    CHECK(set.as_mpirun);
    CHECK(std::find(set.env.begin(), set.env.end(), EnvVar{"PATH", "/opt/mpi/bin:/usr/bin:/bin"}) !=
          set.env.end());
  }
}
