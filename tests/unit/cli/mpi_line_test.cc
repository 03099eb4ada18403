#include "cli/mpi_line.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "cli/program.h"
#include "tests/unit/cli/world.h"

using namespace trainrun;
using namespace trainrun::cli;

namespace {

struct Listed {
  std::string_view names;  // with blanks between
  Takes takes;
};
constexpr auto none = Takes::nothing;
constexpr auto one = Takes::a_value;
constexpr auto pair = Takes::a_pair;

// All options that mpirun(1) and `mpirun --help full` of Open MPI 4.1 name, but -h.
constexpr Listed of_open_mpi[] = {
    {"--allow-run-as-root --bind-to-core --bind-to-socket --bycore --bynode --byslot --continuous --debug "
     "-d --debug-devel --debug-daemons --debug-daemons-file --disable-recovery --display-allocation "
     "--display-devel-allocation --display-devel-map --display-diffable-map --display-map --display-topo "
     "--do-not-launch --do-not-resolve --dvm --enable-instant-on-support --enable-recovery --fwd-mpirun-port "
     "--get-stack-traces --index-argv-by-rank --leave-session-attached --merge-stderr-to-stdout --nolocal "
     "--nooversubscribe --noprefix --novm --output-proctable --oversubscribe --pernode -s --preload-binary "
     "-q "
     "--quiet --report-bindings --report-child-jobs-separately --report-state-on-timeout "
     "--set-cwd-to-session-dir --show-progress --tag-output --terminate --timestamp-output --tv "
     "--use-hwthread-cpus --use-regexp -v --verbose -V --version --xml",
     none},
    {"-am --app --bind-to -c -n --n -np --np --cf --cartofile --cpu-list --cpu-set --cpus-per-proc "
     "--cpus-per-rank --debugger --default-hostfile -H --host --hnp --hostfile --launch-agent --machinefile "
     "--map-by --max-restarts --max-vm-size -N --npernode --npersocket --ompi-server --output-filename "
     "--path "
     "--personality --ppr --prefix --preload-files --rank-by --report-events --report-pid --report-uri -rf "
     "--rankfile --stdin --timeout -tune -wd --wdir -x --xml-file --xterm",
     one},
    {"-gmca --gmca -mca --mca", pair}};

// All options that `mpiexec --help` of Hydra 4.0 names, and those that its older names are still in use of.
constexpr Listed of_hydra[] = {
    {"-genvnone -genvall -envnone -envall -enable-x -disable-x -verbose -info -print-all-exitcodes -profile "
     "-prepend-rank -l -disable-auto-cleanup -disable-hostname-propagation -pmi-port -skip-launch-node "
     "-debug "
     "-version -print-rank-map",
     none},
    {"-genvlist -f -hosts -host -wdir -configfile -envlist -n -np -launcher -launcher-exec -bootstrap -rmk "
     "-topolib "
     "-bind-to -map-by -membind -demux -iface -ppn -perhost -prepend-pattern -outfile-pattern "
     "-errfile-pattern "
     "-nameserver -order-nodes -localhost -usize -gpus-per-proc -hostfile -machinefile",
     one},
    {"-genv -env", pair}};

const Flag* of_table(std::string_view name) {
  const Flag* flag = find_flag(mpi_line(), name);
  if (flag == nullptr) return nullptr;
  const auto at = static_cast<std::size_t>(flag - mpi_line().flags.data());
  return at < mpi_flags().size() ? flag : nullptr;
}

template <std::size_t n>
void check_all(const Listed (&lists)[n]) {
  for (const auto& [names, takes] : lists) {
    std::size_t at = 0;
    while (at < names.size()) {
      const auto end = std::min(names.find(' ', at), names.size());
      const auto name = std::string(names.substr(at, end - at));
      CAPTURE(name);
      const Flag* flag = of_table(name);
      CHECK(flag != nullptr);
      if (flag != nullptr) CHECK(flag->takes == takes);
      at = end + 1;
    }
  }
}

}  // namespace

TEST_CASE("beside Open MPI's host file each mention of a host is one slot of it") {
  auto world = called("mpirun");
  world.files["/home/u/hosts"] = "gpu1 slots=2\ngpu2 slots=2\n";
  const auto job = job_of(world, {"--hostfile", "hosts", "-H", "gpu2,gpu1", "-np", "2", "./train"});
  REQUIRE(job.hosts.hosts.size() == 2);
  CHECK(job.hosts.hosts[0].slots == 1);
}

TEST_CASE("every option of both manuals has a row, which takes as many words") {
  check_all(of_open_mpi);
  check_all(of_hydra);
}

TEST_CASE("a row says what becomes of its option, and two of one name read the same words") {
  for (const auto& row : mpi_flags()) {
    CAPTURE(row.names.front());
    CHECK((row.fate == Fate::works || row.fate == Fate::reads) == row.why.empty());
    CHECK((row.fate == Fate::reads) == (row.how != How::none));
    if (row.fate == Fate::works && row.takes == Takes::nothing) CHECK_FALSE(row.value.empty());
    for (const auto& other : mpi_flags()) {
      if (&other == &row || other.names.front() != row.names.front()) continue;
      CHECK(other.takes == row.takes);
      CHECK(other.whose != row.whose);
      CHECK(other.names == row.names);
    }
    for (const auto name : row.names) {
      const auto* flag = find_flag(mpi_line(), name);
      REQUIRE(flag != nullptr);
      CHECK(flag->name == row.names.front());
    }
  }
}

TEST_CASE("lines of Open MPI's mpirun") {
  World world = called("mpirun.openmpi");
  auto job =
      job_of(world, {"-np", "4", "--allow-run-as-root", "-host", "a:2,b:2", "--mca", "btl", "tcp,self",
                     "-mca", "btl_tcp_if_include", "eth0", "-x", "A=1", "--bind-to", "none", "./train"});
  CHECK(shown(job) == "a:2 b:2 np 4");
  CHECK(job.bind_to == BindTo::none);
  CHECK(job.tag == Tag::none);
  CHECK(job.pty == true);
  const auto has = [&](const EnvVar& wanted) {
    return std::find(job.env.begin(), job.env.end(), wanted) != job.env.end();
  };
  CHECK(has({"OMPI_MCA_btl", "tcp,self"}));
  CHECK(has({"OMPI_MCA_btl_tcp_if_include", "eth0"}));
  CHECK(has({"A", "1"}));
  job = job_of(world, {"-npernode", "2", "-H", "a,b", "--tag-output", "--timestamp-output", "./train"});
  CHECK(job.world_size() == 4);
  CHECK(job.tag == Tag::rank);
  CHECK(job.timestamp);
  job = job_of(world, {"-np", "4", "--map-by", "ppr:2:node:PE=2", "-H", "a:4,b:4", "./train"});
  CHECK(job.map_by == MapBy::ppr);
  CHECK(job.ppr == 2);
  CHECK(job.cpus_per_rank == 2);
  CHECK(job.bind_to == BindTo::core);
  job = job_of(world, {"-np", "4", "--map-by", "node:OVERSUBSCRIBE", "-H", "a,b", "./train"});
  CHECK(job.map_by == MapBy::host);
  CHECK(job.oversubscribe);
  // a host of a file has as many slots as this host has cores
  world.files["/home/u/h"] = "a\nb\n";
  CHECK(shown(job_of(world, {"-np", "8", "--hostfile", "h", "./train"})) == "a:4 b:4 np 8");
  CHECK(error_of(world, {"-np", "4", "-host", "a,b", "./train"}).find("-H a:2,b:2") != std::string::npos);
  CHECK(error_of(world, {"--map-by", "ppr:2:board", "./train"}).find("as in ppr:2:socket") !=
        std::string::npos);
  CHECK(error_of(world, {"--bind-to", "core:4", "./train"}).find("no qualifier") != std::string::npos);
  CHECK(error_of(world, {"--map-by", "slot:PE=x", "./train"}).find("how many cores") != std::string::npos);
  job = job_of(world, {"-np", "1", "--bind-to", "none", "--map-by", "slot:PE=2", "./train"});
  CHECK(job.cpus_per_rank == 2);
  CHECK(job.bind_to == BindTo::none);
  CHECK(error_of(world, {"-np4", "./train"}) == "unknown flag '-np4' | write -np 4");
  CHECK(job_of(world, {"-np", "1", "train"}).programs[0].argv == Words{"./train"});
  CHECK(job_of(world, {"-np", "1", "true"}).programs[0].argv == Words{"true"});
  CHECK(job_of(world, {"./train"}).world_size() == 4);  // a rank a core
  CHECK(error_of(world, {"--displaymap", "./train"}).find("--display-map") != std::string::npos);
}

TEST_CASE("the words of Open MPI 5") {
  World world = called("mpirun.openmpi");
  auto job =
      job_of(world, {"-np", "2", "--output", "tag,timestamp,dir=out:nocopy", "--display", "bind", "./train"});
  CHECK(job.tag == Tag::rank);
  CHECK(job.timestamp);
  CHECK(job.output_directory == "/home/u/out");
  CHECK(job.report_bindings);
  CHECK(job_of(world, {"--rtos", "recoverable,get-stack-traces", "./train"}).elastic.on_failure ==
        OnFailure::ignore);
  CHECK(world.read({"-np", "2", "--display", "map,allocation:parseable", "./train"})
            ->notes.back()
            .find(" slots, ranks 0-1") != std::string::npos);
  CHECK(world.read({"--runtime-options", "donotlaunch", "./train"})->action == Action::dry_run);
  CHECK(error_of(world, {"--output", "xml", "./train"}).find("write tag, timestamp or dir=DIR") !=
        std::string::npos);
  CHECK(error_of(world, {"--display", "topo", "./train"}).find("lstopo") != std::string::npos);
}

TEST_CASE("ranks a socket are ranks a host with as many sockets as this one") {
  World world = called("mpirun");
  world.cpus = {{0, 0, 0, 0}, {1, 1, 0, 1}, {2, 2, 1, 2}, {3, 3, 1, 3}};  // two sockets, four NUMA nodes
  for (const Words& words : {Words{"--map-by", "ppr:3:socket"}, Words{"--ppr", "3:package"},
                             Words{"-npersocket", "3"}, Words{"--map-by", "PPR:3:SOCKET:PE=1"}}) {
    auto line = words;
    line.insert(line.end(), {"-H", "a:6,b:6", "./train"});
    const auto job = job_of(world, line);
    CHECK(job.world_size() == 12);
    CHECK(job.ppr == 6);
    CHECK(job.per_part.part == HostPart::socket);
    CHECK(job.per_part.ranks == 3);
    CHECK(job.per_part.parts == 2);
  }
  CHECK(job_of(world, {"--map-by", "ppr:1:numa", "./train"}).world_size() == 4);
  CHECK(job_of(world, {"--map-by", "ppr:1:core", "-np", "3", "./train"}).world_size() == 3);
  CHECK(job_of(world, {"--map-by", "core", "-np", "3", "./train"}).bind_to == BindTo::core);
  CHECK(job_of(world, {"--map-by", "socket", "-np", "2", "./train"}).bind_to == BindTo::socket);
  CHECK(job_of(world, {"--map-by", "node", "-np", "2", "./train"}).bind_to == BindTo::automatic);
  CHECK(job_of(world, {"--map-by", "core", "--bind-to", "none", "-np", "2", "./train"}).bind_to ==
        BindTo::none);
  CHECK(job_of(world, {"--map-by", "core", "--oversubscribe", "-np", "9", "./train"}).bind_to ==
        BindTo::automatic);
  CHECK(world.read({"--map-by", "ppr:1:numa", "-H", "a:4", "./train"})->notes.front() ==
        "--map-by ppr:1:numa: 4 ranks a host, each taken to have 4 NUMA nodes, as this one has");
  CHECK(error_of(world, {"--map-by", "ppr:1:socket", "-np", "3", "./train"}).find("-np 3 needs 3 ranks") ==
        0);
}

TEST_CASE("a rank file says where each rank runs; hosts without one are not reached") {
  World world = called("mpirun");
  world.files["/home/u/RF"] = "rank 0=b slot=1:0-2\nrank 2=a slot=1\nrank 1=b\n";
  for (const Words& words : {Words{"-rf", "RF"}, Words{"--rankfile", "RF", "-H", "a,b,c"},
                             Words{"--map-by", "rankfile:file=RF:oversubscribe", "-H", "c,B,a"}}) {
    auto line = words;
    line.insert(line.end(), "./train");
    const auto job = job_of(world, line);
    CHECK(job.world_size() == 3);
    REQUIRE(job.hosts.hosts.size() == 2);
    CHECK(job.hosts.hosts[0].slots == 2);
    CHECK(job.hosts.hosts[1].name == "a");
    REQUIRE(job.rank_file.size() == 3);
    CHECK(job.rank_file[0] == RankPlace{0, {{1, 0, 2}}});
    CHECK(job.rank_file[1] == RankPlace{0, {}});
    CHECK(job.rank_file[2] == RankPlace{1, {{-1, 1, 1}}});
  }
  CHECK(job_of(world, {"-rf", "RF", "-np", "2", "./train"}).world_size() == 2);
  CHECK(error_of(world, {"-rf", "RF", "-np", "4", "./train"}) ==
        "-np 4 needs 4 ranks, and the rank file has lines for 3 | add a line for rank 3, or lower -np");
  CHECK(error_of(world, {"-rf", "RF", "-H", "a,c", "./train"})
            .find("RF:1: host 'b' is not among those of -H") == 0);
  CHECK(error_of(world, {"-rf", "RF", "-npernode", "2", "./train"}).find("-rf and -npernode both say") == 0);
  CHECK(error_of(world, {"-rf", "RF", "--min-np", "1", "./train"}).find("-rf: the ranks of an elastic job") ==
        0);
  CHECK(error_of(world, {"-rf", "nowhere", "./train"}).find("No such file") != std::string::npos);
  world.files["/home/u/rel"] = "rank 0=+n1 slot=0\nrank 1=+n0\n";
  const auto job = job_of(world, {"-rf", "rel", "-H", "a,b", "./train"});
  CHECK(job.hosts.hosts[job.rank_file[0].host].name == "b");
  CHECK(job.hosts.hosts[job.rank_file[1].host].name == "a");
  CHECK(error_of(world, {"-rf", "rel", "-H", "a", "./train"}).find("rel:1: there is no host '+n1'") == 0);
}

TEST_CASE("without this host's ranks, the others take them") {
  World world = called("mpirun");
  CHECK(shown(job_of(world, {"-nolocal", "-H", "here:2,a:2,localhost:2,b:2", "./train"})) == "a:2 b:2 np 4");
  CHECK(shown(job_of(world, {"-skip-launch-node", "-n", "2", "-hosts", "here,a", "./train"})) == "a:1 np 2");
  CHECK(error_of(world, {"-nolocal", "-np", "2", "./train"}).find("-nolocal: no host but this one") == 0);
  CHECK(error_of(world, {"-nolocal", "--discover", "file:h", "-np", "2", "./train"}).find("a discovery") !=
        std::string::npos);
}

TEST_CASE("lines of Hydra's mpiexec") {
  World world = called("mpiexec.hydra");
  world.environment.push_back({"OWN", "1"});
  auto job = job_of(world, {"-n", "5", "-hosts", "a,b", "-genv", "OPT", "-O2 -g", "-env", "EMPTY", "", "-ppn",
                            "3", "-iface", "eth0", "-l", "./train"});
  CHECK(shown(job) == "a:3 b:3 np 5");
  CHECK(job.network_interface == "eth0");
  CHECK(job.tag == Tag::rank);
  CHECK(job.bind_to == BindTo::none);
  const auto has = [&](const EnvVar& wanted) {
    return std::find(job.env.begin(), job.env.end(), wanted) != job.env.end();
  };
  CHECK(has({"OPT", "-O2 -g"}));
  CHECK(has({"EMPTY", ""}));
  CHECK(has({"OWN", "1"}));
  CHECK(shown(job_of(world, {"-n", "5", "-hosts", "a:2,b:2", "./train"})) == "a:2 b:2 np 5");
  CHECK(job_of(world, {"./train"}).world_size() == 1);
  CHECK(job_of(world, {"-hosts", "a:2,b", "./train"}).world_size() == 3);
  job = job_of(world, {"-bind-to", "core:2", "-n", "1", "./train"});
  CHECK(job.bind_to == BindTo::core);
  CHECK(job.cpus_per_rank == 2);
  CHECK(job_of(world, {"-launcher", "fork", "-n", "2", "./train"}).transport == TransportKind::local);
  CHECK(job_of(world, {"-n", "2", "-prepend-pattern", "[%r] ", "./train"}).tag == Tag::rank);
  CHECK(job_of(world, {"-n", "2", "-prepend-pattern", "%r@%h: ", "./train"}).tag == Tag::host);
  CHECK(error_of(world, {"-prepend-pattern", "%p", "./train"}).find("--tag rank") != std::string::npos);
  CHECK(job_of(world, {"-rr", "-n", "2", "-hosts", "a,b", "./train"}).map_by == MapBy::host);  // Intel's
  CHECK(error_of(world, {"-launcher", "rsh", "./train"}).find("reached by ssh") != std::string::npos);
}

TEST_CASE("several programs: what is for all may stand before any, and what conflicts is named") {
  World world = called("mpirun");
  auto job = job_of(world, {"-np", "1", "./server", ":", "-np", "2", "--mca", "btl", "tcp,self", "./client"});
  for (const auto& program : job.programs)
    CHECK(program.env == std::vector<EnvVar>{{"OMPI_MCA_btl", "tcp,self"}});
  job = job_of(world, {"-np", "1", "-x", "A=1", "./server", ":", "-np", "2", "./client", ":"});
  CHECK(job.programs[0].env == std::vector<EnvVar>{{"A", "1"}});
  CHECK(job.programs[1].env.empty());
  const auto error = error_of(world, {"-np", "1", "--bind-to", "core", "./server", ":", "-np", "1",
                                      "--bind-to", "socket", "./client"});
  CHECK(error.find("--bind-to core") != std::string::npos);
  CHECK(error.find("--bind-to socket") != std::string::npos);
  world = called("mpiexec");
  world.executables.insert({"/tmp/server", "/tmp/client"});
  job = job_of(
      world, {"-genv", "A", "1", "-wdir", "/tmp", "./server", ":", "-n", "2", "-env", "A", "2", "./client"});
  CHECK(job.programs[0].np == 1);
  CHECK(job.programs[1].np == 2);
  CHECK(job.programs[0].env == std::vector<EnvVar>{{"A", "1"}});
  CHECK(job.programs[1].env == std::vector<EnvVar>{{"A", "2"}});
  CHECK(job.programs[0].directory == "/tmp");
  CHECK(job.programs[1].directory == "/home/u");
  job = job_of(world, {"-genv", "A", "1", "./client", ":", "-genv", "A", "2", "./client"});
  for (const auto& program : job.programs) CHECK(program.env == std::vector<EnvVar>{{"A", "2"}});
}

TEST_CASE("--prefix goes before what -x says, and -env before -genv, in whatever order they stand") {
  World world = called("mpirun");
  const auto job = job_of(world, {"--prefix", "/opt/ompi", "-x", "LD_LIBRARY_PATH=/opt/mine", "./train"});
  CHECK(variable(job.env, "PATH") == "/opt/ompi/bin:/usr/bin:/bin");
  CHECK(variable(job.env, "LD_LIBRARY_PATH") == "/opt/ompi/lib:/opt/mine");
  world.called_as = "mpiexec.hydra";
  CHECK(variable(job_of(world, {"-env", "A", "1", "-genv", "A", "2", "./train"}).env, "A") == "1");
}

TEST_CASE("the environment of one program alone cannot be left out") {
  World world = called("mpiexec.hydra");
  CHECK(error_of(world, {"-envnone", "./train", ":", "./train"}).find("-envnone of one program") == 0);
  CHECK(job_of(world, {"-envnone", "./train", ":", "-envlist", "A", "./train"}).programs.size() == 2);
  CHECK(job_of(world, {"-genvnone", "-envnone", "./train", ":", "./train"}).programs.size() == 2);
}

TEST_CASE("programs in a file are those of a line") {
  World world = called("mpirun");
  world.files["/home/u/app"] =
      "# two programs\n-np 1 -x \"A=1 2\" ./server --port 1 # one\n\n -np 2 \\\n  ./client 'a b'\n";
  auto job = job_of(world, {"--tag-output", "--app", "app"});
  REQUIRE(job.programs.size() == 2);
  CHECK(job.programs[0].argv == Words{"./server", "--port", "1"});
  CHECK(job.programs[0].env == std::vector<EnvVar>{{"A", "1 2"}});
  CHECK(job.programs[1].argv == Words{"./client", "a b"});
  CHECK(job.programs[1].np == 2);
  CHECK(job.tag == Tag::rank);
  world.called_as = "mpiexec";
  CHECK(job_of(world, {"-configfile", "app"}).programs.size() == 2);
  CHECK(error_of(world, {"-configfile", "app", "./train"}).find("'./train' is one beside it") !=
        std::string::npos);
  CHECK(error_of(world, {"-configfile", "nowhere"}).find("nowhere") != std::string::npos);
  world.files["/home/u/empty"] = "# nothing\n";
  CHECK(error_of(world, {"--app", "empty"}).find("names no program") != std::string::npos);
  world.files["/home/u/bad"] = "\n-n 1 ./server\n-n 1 --np4 ./client\n";
  CHECK(error_of(world, {"--app", "bad"}).find("bad:3: unknown flag '--np4'") == 0);
  world.files["/home/u/open"] = "-n 1 ./server 'a\n";
  CHECK(error_of(world, {"--app", "open"}) == "open:1: a quote is not closed");
  CHECK(error_of(world, {"--app", "app", "--app", "bad"}).find("--app is there twice: 'app' and 'bad'") == 0);
  world.files["/home/u/again"] = "--app app\n";
  CHECK(error_of(world, {"--app", "again"}).find("again:1: a file of programs in a file") == 0);
}

TEST_CASE("what has no effect is said once, with its reason") {
  World world = called("mpirun");
  const auto notes = world
                         .read({"-np", "1", "--allow-run-as-root", "--mca", "plm_rsh_no_tree_spawn", "1",
                                "--noprefix", "./train"})
                         ->notes;
  REQUIRE(notes.size() == 2);
  CHECK(notes[0].find("--noprefix has no effect") == 0);
  CHECK(notes[1] == "--mca plm_rsh_no_tree_spawn has no effect: it is a parameter of mpirun itself");
  CHECK(world.read({"-np", "2", "--display-map", "./train"})->notes.back().find(": ranks 0-1") !=
        std::string::npos);
}

TEST_CASE("hints name what was called") {
  const auto hint = [](const char* name, const Words& words) {
    World world = called(name);
    return error_of(world, words);
  };
  CHECK(hint("mpirun", {"--nonsense", "./train"}).find("| mpirun --help lists") != std::string::npos);
  CHECK(hint("mpiexec", {"-n", "2"}).find("write mpiexec [options] program") != std::string::npos);
  CHECK(hint("trainrun", {"--nonsense", "./train"}).find("| trainrun --help all lists") != std::string::npos);
}

TEST_CASE("a number that sticks to a short flag is refused with what to write") {
  World world = called("mpirun");
  for (const std::string flag : {"-N1", "-n1", "-c1"})
    CHECK(error_of(world, {flag, "./train"}) ==
          fmt::format("unknown flag '{}' | write {} 1", flag, flag.substr(0, 2)));
}

TEST_CASE("mca_base_env_list names variables for the ranks, as -x does") {
  World world = called("mpirun");
  const auto job = job_of(world, {"-np", "1", "--mca", "mca_base_env_list", "A=1;HOME; ;B=x=y", "./train"});
  const auto value = [&](const char* name) { return variable(job.env, name); };
  CHECK(value("A") == "1");
  CHECK(value("B") == "x=y");
  CHECK(value("OMPI_MCA_mca_base_env_list").empty());
}

TEST_CASE(
    "a program of the name of our own subcommand runs, and an agent is started whatever we are called") {
  World world = called("mpirun");
  world.executables.insert("/bin/ctl");
  CHECK(job_of(world, {"-np", "1", "ctl"}).programs[0].argv == Words{"ctl"});
  CHECK(job_of(world, {"ctl"}).programs[0].argv == Words{"ctl"});
  CHECK(world.read({"agent"})->action == Action::agent);
}
