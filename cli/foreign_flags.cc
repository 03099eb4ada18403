#include "cli/foreign_flags.h"

#include <algorithm>
#include <iterator>

#include "cli/value.h"

namespace trainrun::cli {

namespace {

struct Needless {
  std::string_view name;
  Takes takes;
  std::string_view why;
  std::string_view only{};                         // the one value that may be left out; empty: any
  bool (*fits)(std::string_view value) = nullptr;  // instead: whether this one may be
};
bool names_streams(std::string_view value) { return parse_redirects(value).has_value(); }
bool names_plugin_of_slurm(std::string_view value) {
  return value == "none" || value == "openmpi" || value.starts_with("pmi") || value.starts_with("cray");
}
constexpr std::string_view shown_and_kept =
    "output is always shown; --output-filename DIR, or --log-dir DIR, keeps it in files as well";
constexpr std::string_view meets = "trainrun does the rendezvous itself";
constexpr std::string_view ends_all = "a rank that fails ends the job, see --on-failure";
constexpr Needless needless[] = {
    // torchrun
    {"--rdzv-backend", Takes::a_value, meets},
    {"--rdzv-endpoint", Takes::a_value, meets},
    {"--rdzv-conf", Takes::a_value,
     "trainrun does the rendezvous itself; --start-timeout says how long hosts have"},
    {"--standalone", Takes::nothing, meets},
    {"--no-python", Takes::nothing, "a program is run as it is, and only a *.py by python3"},
    {"--node-rank", Takes::a_value, "one trainrun starts all hosts", "0"},
    {"--master-addr", Takes::a_value, "ranks are told the address of rank 0's host"},
    {"--local-addr", Takes::a_value, "trainrun finds it; --network-interface chooses the network"},
    {"--monitor-interval", Takes::a_value, "the end of a rank is seen at once"},
    {"--start-method", Takes::a_value, "ranks are programs of their own"},
    {"--run-path", Takes::nothing, "a script is run by python3"},
    {"--tee", Takes::a_value, shown_and_kept, {}, names_streams},
    {"-t", Takes::a_value, shown_and_kept, {}, names_streams},
    {"--event-log-handler", Takes::a_value, "--events FILE has what happens to the job", "null"},
    {"--signals-to-handle", Takes::a_value,
     "TERM, INT, HUP and QUIT end the job, and USR1, USR2, TSTP and CONT reach the ranks"},
    {"--use-env", Takes::nothing, "LOCAL_RANK is always in the environment"},
    // Open MPI
    {"--allow-run-as-root", Takes::nothing, "root may start jobs as well"},
    {"--nooversubscribe", Takes::nothing, "more ranks than slots are an error without --oversubscribe"},
    // Hydra
    {"--print-all-exitcodes", Takes::nothing, "a rank that fails is named with its code"},
    {"--launcher", Takes::a_value, "hosts are reached by ssh", "ssh"},
    {"--bootstrap", Takes::a_value, "hosts are reached by ssh", "ssh"},
    // srun
    {"--mpi",
     Takes::a_value,
     "the MPI of a program is recognised: Open MPI is served by PMIx, MPICH and Intel MPI by PMI-1",
     {},
     names_plugin_of_slurm},
    {"--overlap", Takes::nothing, "trainrun takes no step of its own in the allocation"},
    {"--exclusive", Takes::nothing, "trainrun takes no step of its own in the allocation"},
    {"--unbuffered", Takes::nothing, "lines are shown as they come"},
    {"-u", Takes::nothing, "lines are shown as they come"},
    {"--kill-on-bad-exit", Takes::yes_or_no, ends_all, "true"},
    {"-K", Takes::nothing, ends_all},
};

struct Translated {
  std::string_view name, value;
  Option option;
  std::string_view as;
  Takes takes = Takes::a_value;
};
constexpr Translated translated[] = {
    // Open MPI, Hydra, srun
    {"--tag-output", "true", Option::tag, "rank", Takes::nothing},
    {"--prepend-rank", "true", Option::tag, "rank", Takes::nothing},
    {"--label", "true", Option::tag, "rank", Takes::nothing},
    // torchrun
    {"--numa-binding", "node", Option::bind_to, "numa"},
    {"--numa-binding", "socket", Option::bind_to, "socket"},
};

struct Foreign {
  std::string_view name, advice;
};
constexpr std::string_view of_mpirun =
    "there is no mpirun below: its flags are given as ours, its parameters as -x OMPI_MCA_name=value";
constexpr std::string_view of_allocation =
    "leave it out: it is for sbatch or salloc, whose allocation trainrun runs in";
constexpr std::string_view of_gpus =
    "write --gpus-per-rank N; the GPUs themselves are asked of sbatch or salloc";
constexpr Foreign foreign[] = {
    // torchrun
    {"nproc", "write -np N for all ranks, or --nproc-per-node N"},
    {"node-rank", "one trainrun starts all hosts: name them with -H or --hostfile"},
    {"tee", "write 3 for all streams; --output-filename DIR is where they go"},
    {"numa-binding",
     "write --bind-to numa or socket; for cores of a rank's own --bind-to core --cpus-per-rank N"},
    {"event-log-handler", "write --events FILE: a line of JSON for whatever happens to the job"},
    {"log-line-prefix-template", "write --tag rank or host, and --timestamp, for what begins a line"},
    {"print-completion", "write trainrun completion bash, zsh or fish"},
    {"logs-specs", "write --output-filename DIR: DIR/latest/rank.N/stdout and stderr"},
    {"duplicate-stdout-filters", "write 2>&1 | tee -i ALL | grep PATTERN behind the line"},
    {"duplicate-stderr-filters", "write 2>&1 | tee -i ALL | grep PATTERN behind the line"},
    // srun
    {"K1", "leave it out: a rank that fails ends the job"},
    {"K0", "write --on-failure ignore"},
    {"kill-on-bad-exit", "leave it out, or write --on-failure ignore for what 0 means"},
    // Open MPI
    {"mca", "Open MPI's parameters are given as -x OMPI_MCA_name=value"},
    {"gmca", "Open MPI's parameters are given as -x OMPI_MCA_name=value"},
    {"prefix", "leave it out: hosts need no installation, trainrun brings its agent along"},
    {"merge-stderr-to-stdout", "write 2>&1 behind the line"},
    {"am", "there are no files of Open MPI's parameters: give each as -x OMPI_MCA_name=value"},
    {"tcp", "not needed: leave it out; --network-interface chooses the network"},
    {"app", "write the programs on the line, with ':' between them, or as [[program]] of a --config file"},
    {"timestamp-output", "write --timestamp"},
    {"display-map", "write --dry-run: it prints hosts, ranks and placement"},
    {"display-allocation", "write --dry-run: it prints hosts, ranks and placement"},
    {"display", "write --dry-run: it prints hosts, ranks, placement and the rule of binding"},
    {"bynode", "write --map-by host"},
    {"byslot", "write --map-by slot"},
    {"npersocket", "write --map-by ppr:N:socket"},
    {"skip-launch-node", "write --nolocal"},
    // Hydra
    {"genv", "write -x NAME=VALUE"},
    {"genvall", "write --env all"},
    {"envall", "write --env all"},
    {"info", "write --version"},
    {"outfile-pattern", "write --output-filename DIR for a file a rank, or > FILE for all output"},
    {"configfile",
     "write the programs on the line, with ':' between them, or as [[program]] of a --config file"},
    {"disable-auto-cleanup",
     "there is none: a rank that fails ends the job, or restarts it with --max-restarts"},
    {"genvlist", "write -x NAME for each of the names"},
    {"pmi-args",
     "an MPI program that was started by itself asks for a launcher of its own, for MPI_Comm_spawn or "
     "MPI_UNIVERSE_SIZE, and trainrun is no such: start the program with trainrun -np 1, or with its own "
     "mpiexec"},
    {"iface", "write --network-interface NAME"},
    {"genvnone", "write --env none"},
    {"perhost", "write --ppn N"},
    {"launcher", "write --transport ssh, openssh or local; hosts of Slurm are reached by ssh too"},
    // srun
    {"-l", "write --tag rank"},
    {"-N", "write --ppn N for mpirun's -N; leave srun's out, or write -np 4 --ppn 2 for two hosts"},
    {"nodes", "leave it out: all hosts are used, and -np 4 --ppn 2 are two of them; or name them: -H a,b"},
    {"-w", "write -H a,b; in an allocation it chooses among its hosts with --hosts-from slurm, pbs, ..."},
    {"nodelist",
     "write -H a,b; in an allocation it chooses among its hosts with --hosts-from slurm, pbs, ..."},
    {"-o", "write --output-filename DIR for a file a rank, or > FILE for all output"},
    {"output", "write --output-filename DIR for a file a rank, or > FILE for all output"},
    {"-e", "write --output-filename DIR for a file a rank, or 2> FILE for all errors"},
    {"error", "write --output-filename DIR for a file a rank, or 2> FILE for all errors"},
    {"exclude", "write -H a,b with the hosts that are to be used"},
    {"het-group", "write the programs with ':' between them: the hosts of all groups are one list"},
    {"-W", "leave it out: a rank that fails ends the job, the others have --grace"},
    {"wait", "leave it out: a rank that fails ends the job, the others have --grace"},
    {"gpu-bind", "write --gpus-per-rank N: each rank sees N GPUs of its own"},
    {"distribution", "write --map-by slot for block, --map-by host for cyclic"},
    {"multi-prog",
     "write the programs on the line, with ':' between them, or as [[program]] of a --config file"},
    {"input", "write --stdin 0, all or none; a file is given by < FILE"},
    {"gres", of_gpus},
    {"-G", of_gpus},
    {"gpus", of_gpus},
    {"gpus-per-node", of_gpus},
    {"gpus-per-socket", of_gpus},
    {"mem", of_allocation},
    {"mem-per-cpu", of_allocation},
    {"mem-per-gpu", of_allocation},
    {"-A", of_allocation},
    {"-C", of_allocation},
    {"constraint", of_allocation},
    {"reservation", of_allocation},
    {"partition", of_allocation},
    {"account", of_allocation},
    {"qos", of_allocation},
    {"job-name", of_allocation},
    {"-J", of_allocation},
    {"jobid", "leave it out: inside the allocation its hosts are found"},
    {"-c", "write -np N, or --cpus-per-rank N"},
    {"cpus-per-task", "write --cpus-per-rank N"},
    {"gpus-per-task", "write --gpus-per-rank N"},
    {"ntasks", "write -np N"},
    {"ntasks-per-node", "write --ppn N"},
    {"cpu-bind", "write --bind-to core, numa or socket"},
    {"-t",
     "write --timeout TIME for srun's -t (its 10 are minutes: 10m), --output-filename DIR for torchrun's"},
    {"time", "write --timeout TIME (srun's 10 are minutes: 10m)"},
    {"-D", "write --wdir DIR"},
    {"chdir", "write --wdir DIR"},
};

}  // namespace

std::string_view advice_for_foreign_flag(std::string_view flag) {
  const auto* row = std::find_if(std::begin(foreign), std::end(foreign),
                                 [&](const Foreign& one) { return one.name == flag; });
  return row == std::end(foreign) ? std::string_view() : row->advice;
}

const std::vector<Flag>& foreign_flags() {
  static const std::vector<Flag> flags = [] {
    std::vector<Flag> out;
    for (const auto& row : translated) {
      if (out.empty() || out.back().name != row.name)
        out.push_back({.name = row.name,
                       .takes = row.takes,
                       .value_name = row.takes == Takes::a_value ? "VALUE" : "",
                       .hidden = true});
    }
    for (const auto& row : needless)
      out.push_back({.name = row.name,
                     .takes = row.takes,
                     .value_name = row.takes == Takes::a_value ? "VALUE" : "",
                     .hidden = true});
    return out;
  }();
  return flags;
}

std::optional<std::pair<Option, std::string_view>> meant_by(const Flag& flag, std::string_view value) {
  const auto* row = std::find_if(std::begin(translated), std::end(translated), [&](const Translated& one) {
    return one.name == flag.name && one.value == value;
  });
  if (row == std::end(translated)) return std::nullopt;
  return std::pair(row->option, row->as);
}

std::string_view why_needless(const Flag& flag, std::string_view value) {
  const auto* row = std::find_if(std::begin(needless), std::end(needless),
                                 [&](const Needless& one) { return one.name == flag.name; });
  if (row == std::end(needless)) return {};
  const bool fits = row->fits != nullptr             ? row->fits(value)
                    : flag.takes == Takes::yes_or_no ? parse_bool(value) == parse_bool(row->only)
                                                     : row->only.empty() || row->only == value;
  return fits ? row->why : std::string_view();
}

}  // namespace trainrun::cli
