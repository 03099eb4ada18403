// Hosts that a batch system gave.
#include "cli/allocation.h"

#include "tests/unit/cli/world.h"

using namespace trainrun;
using namespace trainrun::cli;

TEST_CASE("the hosts of a PBS, LSF or Grid Engine job are taken when none are named, and that is said") {
  struct Row {
    std::vector<EnvVar> environment;
    std::string system, job, origin;
  };
  const Row rows[] = {
      {{{"PBS_JOBID", "7.srv"}, {"PBS_NODEFILE", "/spool/pbs"}},
       "pbs",
       "n1:2 n2:2 np 4",
       "PBS job (PBS_NODEFILE)"},
      {{{"LSB_JOBID", "7"}, {"LSB_MCPU_HOSTS", "n1 3 n2 1"}, {"LSB_DJOB_HOSTFILE", "/spool/pbs"}},
       "lsf",
       "n1:3 n2:1 np 4",
       "LSF job (LSB_MCPU_HOSTS)"},
      {{{"LSB_JOBID", "7"}, {"LSB_DJOB_HOSTFILE", "/spool/pbs"}},
       "lsf",
       "n1:2 n2:2 np 4",
       "LSF job (LSB_DJOB_HOSTFILE)"},
      {{{"LSB_JOBID", "7"}, {"LSB_HOSTS", "n1 n1 n2"}}, "lsf", "n1:2 n2:1 np 3", "LSF job (LSB_HOSTS)"},
      {{{"JOB_ID", "7"}, {"PE_HOSTFILE", "/spool/sge"}},
       "sge",
       "n1:1 n2:2 np 3",
       "Grid Engine job (PE_HOSTFILE)"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.origin);
    World world;
    world.files["/spool/pbs"] = "n1\nn2\nn1\nn2\n";
    world.files["/spool/sge"] = "n1 1 all.q@n1 UNDEFINED\nn2 2 all.q@n2 UNDEFINED\n";
    world.environment.insert(world.environment.end(), row.environment.begin(), row.environment.end());
    CHECK(shown(job_of(world, {"./train"})) == row.job);
    CHECK(shown(job_of(world, {"--hosts-from", row.system, "./train"})) == row.job);
    CHECK(shown(job_of(world, {"-H", "other:2", "./train"})) == "other:2 np 2");
    CHECK(shown(job_of(world, {"--hosts-from", "none", "-np", "2", "./train"})) == "localhost:2 np 2");
    CHECK(world.read({"./train"})->notes == Words{"hosts of the " + row.origin + ": n1 and n2"});
    world.files.clear();
    if (row.environment.back().second.starts_with("/spool") && row.origin.find("MCPU") == std::string::npos) {
      CHECK(error_of(world, {"./train"}).find("--hosts-from none") != std::string::npos);
    }
  }
}

TEST_CASE("a batch system that names this host once says where the job is, not how many ranks it may have") {
  World world;
  world.files["/spool/pbs"] = "localhost\n";
  world.environment.insert(world.environment.end(), {{"PBS_JOBID", "7"}, {"PBS_NODEFILE", "/spool/pbs"}});
  CHECK(shown(job_of(world, {"-np", "3", "./train"})) == "localhost:3 np 3");
  CHECK(world.read({"./train"})->job.world_size() == 4);  // one a core
  CHECK(shown(job_of(world, {"--hosts-from", "pbs", "./train"})) == "localhost:1 np 1");
  world.files["/spool/pbs"] = "n1\nn2\n";  // no mpiprocs: hosts without a count
  CHECK(shown(job_of(world, {"--ppn", "4", "./train"})) == "n1:4 n2:4 np 8");
}

TEST_CASE("a job of a batch system whose list of hosts is missing runs here, and that is said") {
  const auto notes = [](std::vector<EnvVar> environment, Words words) {
    World world;
    world.environment.insert(world.environment.end(), environment.begin(), environment.end());
    words.insert(words.end(), {"-np", "2", "./train"});
    return world.read(std::move(words))->notes;
  };
  const std::string here =
      " is not set: the job runs on this host alone; name others with -H or --hostfile, or say --hosts-from "
      "none";
  CHECK(notes({{"PBS_JOBID", "7"}}, {}) == Words{"inside a job of PBS (PBS_JOBID), but PBS_NODEFILE" + here});
  CHECK(
      notes({{"LSB_JOBID", "7"}}, {}) ==
      Words{"inside a job of LSF (LSB_JOBID), but LSB_MCPU_HOSTS or LSB_DJOB_HOSTFILE or LSB_HOSTS" + here});
  CHECK(notes({{"JOB_ID", "7"}, {"SGE_ROOT", "/opt/sge"}}, {}) ==
        Words{"inside a job of Grid Engine (JOB_ID), but PE_HOSTFILE" + here});
  CHECK(notes({{"JOB_ID", "7"}}, {}).empty());  // many programs have one
  CHECK(notes({{"PBS_NODEFILE", "/spool/pbs"}}, {}) ==
        Words{"PBS_NODEFILE is set, but PBS_JOBID is not, as outside a job of PBS: the job" +
              here.substr(here.find(" runs"))});
  for (const Words& words : {Words{"--hosts-from", "none"}, Words{"-H", "localhost:2"}})
    CHECK(notes({{"PBS_JOBID", "7"}}, words).empty());
  CHECK(notes({{"PBS_JOBID", "7"}}, {"--standalone"}).size() == 1);  // why that flag is needless
  CHECK(notes({{"LSB_JOBID", "7"}, {"LSB_HOSTS", "localhost"}}, {}).empty());
}

TEST_CASE("srun in front of trainrun would start the whole job once a task") {
  World world;
  world.environment.insert(world.environment.end(), {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}});
  CHECK(error_of(world, {"-np", "2", "./train"}).starts_with("srun has started trainrun 4 times"));
  CHECK(world.read({"--dry-run", "-np", "2", "./train"}).has_value());
  world.environment.back().second = "1";
  CHECK(world.read({"-np", "2", "./train"}).has_value());
}

TEST_CASE("host:port is not taken for thousands of ranks") {
  CHECK(error_of({"-H", "node1:2222,node2", "./train"}).find("ssh://node1:2222") != std::string::npos);
  CHECK(World{}.read({"-H", "node1:2222", "-np", "2222", "./train"}).has_value());
}

TEST_CASE("srun's --export is not taken for the name of a variable") {
  CHECK(error_of({"--export=NONE", "-np", "2", "./train"}) ==
        "--export 'NONE': that is srun's, and ours names variables | write --env none");
  CHECK(error_of({"--export", "ALL,A=1", "-np", "2", "./train"}).find("--env all -x NAME") !=
        std::string::npos);
  CHECK(World{}.read({"-x", "ALL", "-np", "2", "./train"}).has_value());
}

TEST_CASE("--hosts-from a system that has no job here is an error") {
  CHECK(error_of({"--hosts-from", "pbs", "./train"}) ==
        "--hosts-from pbs: this is not inside a job of PBS (PBS_JOBID or PBS_NODEFILE is not set) | start it "
        "with "
        "qsub, or name the hosts with -H");
  CHECK(error_of({"--hosts-from", "lsf", "--hostfile", "hosts.txt", "./train"}) ==
        "--hostfile and --hosts-from lsf both say which hosts | keep one of them");
}

namespace {

World in_slurm(const std::string& tasks = "2(x2)") {
  World world;
  world.environment.insert(world.environment.end(), {{"SLURM_JOB_ID", "7"},
                                                     {"SLURM_JOB_NODELIST", "n[1-2]"},
                                                     {"SLURM_TASKS_PER_NODE", tasks},
                                                     {"SLURM_CPUS_PER_TASK", "6"}});
  return world;
}

std::string threads(World& world, Words words) {
  words.emplace_back("./train");
  const auto job = job_of(world, std::move(words));
  CHECK(std::is_sorted(job.env.begin(), job.env.end()));
  for (const auto& [name, value] : job.env) {
    if (name == "OMP_NUM_THREADS") return value;
  }
  return "a share of the cores";
}

}  // namespace

TEST_CASE("where each host of an allocation has one task, flags say how many ranks that starts") {
  for (const std::string tasks : {"1(x2)", "1,1"}) {
    CAPTURE(tasks);
    auto world = in_slurm(tasks);
    const auto hosts = [&](Words words) {
      words.emplace_back("./train");
      return shown(job_of(world, std::move(words)));
    };
    CHECK(hosts({}) == "n1:1 n2:1 np 2");
    CHECK(hosts({"--nproc-per-node", "8"}) == "n1:8 n2:8 np 16");
    CHECK(hosts({"--slots-per-host", "4", "-np", "6"}) == "n1:4 n2:4 np 6");
    CHECK(hosts({"--hosts-from", "slurm", "--nproc-per-node", "2", "-H", "n2"}) == "n2:2 np 2");
  }
  auto world = in_slurm();
  CHECK(
      error_of(world, {"--nproc-per-node", "3", "./train"}).starts_with("3 ranks on n1, which has 2 slots"));
}

TEST_CASE("ranks of a Slurm job with -c have as many threads, unless somebody says otherwise") {
  auto world = in_slurm();
  CHECK(threads(world, {}) == "6");
  CHECK(threads(world, {"-H", "n1"}) == "6");
  CHECK(threads(world, {"-x", "OMP_NUM_THREADS=2"}) == "2");
  auto one_task = in_slurm("1(x2)");
  CHECK(threads(one_task, {}) == "6");
  CHECK(threads(one_task, {"--nproc-per-node", "3"}) == "2");
  CHECK(threads(one_task, {"--nproc-per-node", "8"}) == "1");
  for (const Words& words :
       {Words{"--cpus-per-rank", "3"}, Words{"--bind-to", "core"}, Words{"--hosts-from", "none"}})
    CHECK(threads(world, words) == "a share of the cores");
  world.environment.emplace_back("OMP_NUM_THREADS", "9");
  CHECK(threads(world, {}) == "9");
  World elsewhere;
  elsewhere.environment.emplace_back("SLURM_CPUS_PER_TASK", "6");
  CHECK(threads(elsewhere, {"-np", "2"}) == "a share of the cores");
  elsewhere.environment.insert(elsewhere.environment.end(),
                               {{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "n1"}});
  CHECK(threads(elsewhere, {"-np", "1"}) == "6");
}

TEST_CASE("hosts that are named inside a Slurm job and do not belong to it are said") {
  auto world = in_slurm();
  const auto notes = [&](Words words) {
    words.emplace_back("./train");
    return world.read(std::move(words))->notes;
  };
  CHECK(notes({"-H", "n1,other,n9"}) == Words{"-H: other and n9 are not in the allocation of this Slurm job "
                                              "(SLURM_JOB_NODELIST); --hosts-from none if "
                                              "that is meant"});
  CHECK(notes({"--hostfile", "hosts.txt", "-H", "gpu1"}) ==
        Words{"hosts.txt: gpu1 is not in the allocation of this Slurm job (SLURM_JOB_NODELIST); --hosts-from "
              "none if "
              "that is meant"});
  for (const Words& words : {Words{}, Words{"-H", "n2.site.org,N1"}, Words{"-H", "n1,localhost"},
                             Words{"-H", "10.0.0.3"}, Words{"--hosts-from", "none", "-H", "other"}}) {
    CAPTURE(words);
    CHECK(notes(words).empty());
  }
}
