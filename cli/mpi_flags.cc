#include "cli/mpi_flags.h"

namespace trainrun::cli {

namespace {

constexpr auto none = Takes::nothing;
constexpr auto one = Takes::a_value;
constexpr auto pair = Takes::a_pair;
constexpr auto both = Whose::both;
constexpr auto ompi = Whose::open_mpi;
constexpr auto hydra = Whose::hydra;

MpiFlag works(std::vector<std::string_view> names, Whose whose, Takes takes, Option option,
              std::string_view value = {}) {
  return {.names = std::move(names),
          .whose = whose,
          .takes = takes,
          .fate = Fate::works,
          .option = option,
          .value = value};
}
MpiFlag reads(std::vector<std::string_view> names, Whose whose, Takes takes, How how,
              std::string_view value = {}) {
  return {.names = std::move(names),
          .whose = whose,
          .takes = takes,
          .fate = Fate::reads,
          .value = value,
          .how = how};
}
MpiFlag needless(std::vector<std::string_view> names, Whose whose, Takes takes, std::string_view why) {
  return {.names = std::move(names), .whose = whose, .takes = takes, .fate = Fate::needless, .why = why};
}
MpiFlag refused(std::vector<std::string_view> names, Whose whose, Takes takes, std::string_view why) {
  return {.names = std::move(names), .whose = whose, .takes = takes, .fate = Fate::refused, .why = why};
}

constexpr std::string_view
    no_daemons = "there are no daemons to speak of: -v says what is done",
    no_debugger =
        "there is no debugger's door: start the debugger around the program, as in xterm -e gdb ./program",
    no_stacks = "--hang-timeout shows the stacks of ranks that hang",
    no_files = "nothing is copied: put it onto the hosts before, or into a directory that they share",
    no_server =
        "there is no server of names: MPI_Publish_name, MPI_Lookup_name and MPI_Comm_spawn are not served",
    no_cpus = "write taskset or numactl before the program, or --bind-to core and --cpus-per-rank N",
    no_order = "the order of hosts in -H or --hostfile is the order of ranks",
    no_xml = "write --dry-run --json for a plan that programs can read",
    no_report = "write echo $$ before exec mpirun ...; trainrun ctl list shows the jobs of this host",
    no_pattern = "write --output-filename DIR: DIR/latest/rank.N/stdout and stderr",
    own_start = "hosts are reached by ssh, and nothing of Open MPI's or MPICH's is started there",
    small_things = "there is nothing here to which it applies";

}  // namespace

std::span<const MpiFlag> mpi_flags() {
  using enum Option;
  static const MpiFlag all[] = {
      // How many, where
      reads({"--np", "--n", "-n", "-c"}, both, one, How::ranks),
      works({"--host", "-H", "--hosts", "--hostlist", "--machines"}, both, one, host),
      works({"--hostfile", "--machinefile", "--default-hostfile", "-f"}, both, one, hostfile),
      works({"--ppn", "--npernode", "--perhost", "-N"}, both, one, ppn),
      works({"--pernode"}, ompi, none, ppn, "1"),
      reads({"--ppr"}, ompi, one, How::ppr),
      reads({"--map-by"}, both, one, How::map_by),
      works({"--rr"}, hydra, none, map_by, "host"),
      works({"--grr"}, hydra, one, ppn),
      works({"--bynode"}, ompi, none, map_by, "host"),
      works({"--byslot"}, ompi, none, map_by, "slot"),
      works({"--bycore"}, ompi, none, map_by, "slot"),
      reads({"--rank-by"}, ompi, one, How::rank_by),
      works({"--oversubscribe"}, ompi, none, oversubscribe, "true"),
      works({"--nooversubscribe"}, ompi, none, oversubscribe, "false"),
      works({"--wdir", "--wd"}, both, one, wdir),
      reads({"--rmk"}, hydra, one, How::batch_system),
      reads({"--npersocket"}, ompi, one, How::per_socket),
      works({"--rankfile", "--rf"}, ompi, one, rankfile),
      works({"--localonly"}, hydra, none, hosts_from, "none"),
      works({"--nolocal"}, ompi, none, nolocal, "true"),
      works({"--skip-launch-node"}, hydra, none, nolocal, "true"),
      refused({"--cartofile", "--cf"}, ompi, one, no_cpus),
      refused({"--order-nodes"}, hydra, one, no_order),
      needless({"--use-hwthread-cpus"}, ompi, none, "slots are what the list of hosts says"),
      needless({"--max-vm-size"}, ompi, one, no_daemons),
      needless({"--novm"}, ompi, none, no_daemons),
      needless({"--dvm"}, ompi, none, no_daemons),
      refused({"--hnp"}, ompi, one, "there is no other mpirun to join: leave it out"),
      needless({"--usize"}, hydra, one, "the universe of MPI is its world: no program can be started later"),
      // Binding
      reads({"--bind-to", "--binding"}, both, one, How::bind_to),
      works({"--bind-to-core"}, ompi, none, bind_to, "core"),
      works({"--bind-to-socket"}, ompi, none, bind_to, "socket"),
      reads({"--cpus-per-proc", "--cpus-per-rank"}, ompi, one, How::cpus),
      works({"--report-bindings"}, both, none, report_bindings, "true"),
      refused({"--cpu-set"}, ompi, one, no_cpus),
      refused({"--cpu-list"}, ompi, one, no_cpus),
      needless({"--membind"}, hydra, one, "memory is taken where a bound rank runs"),
      needless({"--topolib"}, hydra, one, "the kernel says what the host has"),
      reads({"--gpus-per-proc"}, hydra, one, How::gpus),
      // Environment
      works({"--export", "-x"}, ompi, one, export_name),
      reads({"--mca", "--omca"}, ompi, pair, How::parameter, "OMPI_MCA_"),
      reads({"--gmca", "--gomca"}, ompi, pair, How::parameter, "OMPI_MCA_"),
      reads({"--pmixmca", "--gpmixmca"}, ompi, pair, How::parameter, "PMIX_MCA_"),
      needless({"--prtemca"}, ompi, pair, own_start),
      refused({"--am"}, ompi, one, "write each parameter as --mca NAME VALUE"),
      refused({"--tune"}, ompi, one,
              "write each parameter as --mca NAME VALUE, each variable as -x NAME=VALUE"),
      reads({"--genv"}, hydra, pair, How::all_variable),
      reads({"--genvlist"}, hydra, one, How::all_variables),
      reads({"--genvnone"}, hydra, none, How::no_variables),
      works({"--genvall"}, hydra, none, env, "all"),
      reads({"--env"}, hydra, pair, How::variable),
      reads({"--envlist"}, hydra, one, How::variables),
      reads({"--envnone"}, hydra, none, How::no_variables),
      works({"--envall"}, hydra, none, env, "all"),
      works({"--envuser", "--genvuser"}, hydra, none, env, "all"),
      reads({"--prefix"}, ompi, one, How::prefix),
      needless({"--noprefix"}, ompi, none, own_start),
      refused({"--path"}, both, one, "write the program with its path, or -x PATH=..."),
      needless({"--personality"}, ompi, one,
               "whose MPI a program is, it says itself; --compat decides otherwise"),
      // Output, input
      works({"--tag-output"}, ompi, none, tag, "rank"),
      works({"--prepend-rank", "-l"}, hydra, none, tag, "rank"),
      reads({"--prepend-pattern", "--pattern"}, hydra, one, How::label),
      needless({"--ordered-output"}, hydra, none, "lines are never torn"),
      reads({"--output"}, ompi, one, How::output),
      works({"--timestamp-output"}, ompi, none, timestamp, "true"),
      reads({"--output-filename"}, ompi, one, How::directory),
      refused({"--outfile-pattern", "--outfile"}, hydra, one, no_pattern),
      refused({"--errfile-pattern", "--errfile"}, hydra, one, no_pattern),
      refused({"--merge-stderr-to-stdout"}, ompi, none, "write 2>&1 behind the line"),
      refused({"--xml"}, ompi, none, no_xml),
      refused({"--xml-file"}, ompi, one, no_xml),
      refused({"--xterm"}, ompi, one, "write xterm -e before the program"),
      works({"--stdin"}, ompi, one, stdin_to),
      works({"--prepend-timestamp"}, hydra, none, timestamp, "true"),
      reads({"--display"}, ompi, one, How::display),
      reads({"--display-map"}, ompi, none, How::show_ranks),
      reads({"--display-devel-map"}, ompi, none, How::show_ranks),
      reads({"--display-diffable-map"}, ompi, none, How::show_ranks),
      reads({"--print-rank-map"}, hydra, none, How::show_ranks),
      reads({"--display-allocation"}, ompi, none, How::show_hosts),
      reads({"--display-devel-allocation"}, ompi, none, How::show_hosts),
      refused({"--display-topo"}, ompi, none, "write lscpu or lstopo for the program"),
      refused({"--output-proctable"}, ompi, none, "trainrun ctl world shows who is where while the job runs"),
      works({"--verbose", "-v"}, both, none, verbose, "true"),
      works({"--quiet", "-q"}, ompi, none, quiet, "true"),
      needless({"--print-all-exitcodes"}, hydra, none, "a rank that fails is named with its code"),
      needless({"--show-progress"}, ompi, none, "-v says how far the start has come"),
      needless({"--silent-abort"}, hydra, none, "the rank that called MPI_Abort is named, and no more"),
      works({"--info"}, hydra, none, version, "true"),
      works({"--version", "-V"}, both, none, version, "true"),
      needless({"--demux"}, hydra, one, small_things),
      // Its end
      reads({"--timeout"}, ompi, one, How::time_limit),
      needless({"--get-stack-traces"}, ompi, none, no_stacks),
      needless({"--report-state-on-timeout"}, ompi, none, no_stacks),
      reads({"--runtime-options", "--rtos"}, ompi, one, How::runtime),
      works({"--max-restarts"}, ompi, one, max_restarts),
      works({"--enable-recovery"}, ompi, none, on_failure, "ignore"),
      reads({"--with-ft"}, ompi, one, How::fault_tolerance),
      needless({"--disable-recovery"}, ompi, none, "that is how it is: a rank's failure ends the others"),
      works({"--continuous"}, ompi, none, on_failure, "ignore"),
      works({"--disable-auto-cleanup", "--dac"}, hydra, none, on_failure, "ignore"),
      needless({"--report-child-jobs-separately"}, ompi, none, no_server),
      refused({"--terminate"}, ompi, none, "trainrun ctl end ends a job of this host"),
      // Reaching hosts
      reads({"--launcher", "--bootstrap"}, hydra, one, How::starter),
      refused({"--launcher-exec", "--bootstrap-exec"}, hydra, one,
              "write --transport openssh, and ssh's own settings into a file for --ssh-config"),
      works({"--iface"}, hydra, one, network_interface),
      works({"--do-not-launch"}, ompi, none, dry_run, "true"),
      reads({"--allow-run-as-root"}, ompi, none, How::granted),
      needless({"--launch-agent"}, ompi, one, own_start),
      needless({"--do-not-resolve"}, ompi, none, own_start),
      needless({"--enable-instant-on-support"}, ompi, none, own_start),
      needless({"--fwd-mpirun-port"}, ompi, none, own_start),
      needless({"--use-regexp"}, ompi, none, own_start),
      needless({"--enable-x"}, hydra, none,
               "X is not forwarded: name a display that the hosts can reach, as -env DISPLAY here:0"),
      needless({"--disable-x"}, hydra, none, "X is not forwarded"),
      needless({"--localhost"}, hydra, one, "hosts need no name by which they reach this one"),
      needless({"--disable-hostname-propagation"}, hydra, none,
               "ranks are told the address that reaches them"),
      needless({"--pmi-port"}, hydra, none, "ranks have a socket of their own to speak PMI"),
      refused({"--nameserver"}, hydra, one, no_server),
      refused({"--ompi-server"}, ompi, one, no_server),
      // The program
      reads({"--app"}, ompi, one, How::programs),
      reads({"--configfile"}, hydra, one, How::programs),
      refused({"--preload-binary"}, ompi, none, no_files),
      refused(
          {"-s"}, ompi, none,
          "Open MPI's copies the program: put it onto the hosts before; for Intel MPI's write --stdin all "
          "or --stdin RANK"),
      refused({"--preload-files"}, ompi, one, no_files),
      refused({"--set-cwd-to-session-dir"}, ompi, none, "write -wdir DIR"),
      refused({"--index-argv-by-rank"}, ompi, none, "the rank is in TRAINRUN_RANK and OMPI_COMM_WORLD_RANK"),
      // For its developers
      needless({"--debug-devel", "-d"}, ompi, none, no_daemons),
      needless({"--debug-daemons"}, ompi, none, no_daemons),
      needless({"--debug-daemons-file"}, ompi, none, no_daemons),
      needless({"--leave-session-attached"}, ompi, none, no_daemons),
      refused({"--debug"}, ompi, none, no_debugger),
      works({"--debug"}, hydra, none, verbose, "true"),
      refused({"--gdb"}, hydra, none, no_debugger),
      refused({"--trace"}, hydra, none, "write -genv LD_PRELOAD libVT.so"),
      refused({"--check_mpi"}, hydra, none, "write -genv LD_PRELOAD libVTmc.so"),
      refused({"--debugger"}, ompi, one, no_debugger),
      refused({"--tv"}, ompi, none, no_debugger),
      refused({"--report-events"}, ompi, one, no_report),
      refused({"--report-pid"}, ompi, one, no_report),
      refused({"--report-uri"}, ompi, one, no_report),
      needless({"--profile"}, hydra, none, small_things),
  };
  return all;
}

std::span<const MpiDefault> mpi_defaults() {
  static constexpr MpiDefault all[] = {
      {Ways::open_mpi, Option::pty, "true"},     {Ways::open_mpi, Option::tag, "none"},
      {Ways::open_mpi, Option::bind_to, "auto"}, {Ways::hydra, Option::tag, "none"},
      {Ways::hydra, Option::env, "all"},         {Ways::hydra, Option::oversubscribe, "true"},
  };
  return all;
}

std::span<const MpiConflict> mpi_conflicts() {
  static constexpr MpiConflict all[] = {
      {"binding, without --bind-to", "core up to 2 ranks, socket above, none where ranks share cores",
       "none"},
      {"more ranks than slots", "an error without --oversubscribe",
       "named hosts are filled again, slot by slot"},
      {"a host of a file without a count", "as many slots as this host has cores; 1 a line where named again",
       "1 slot"},
      {"-ppn N", "at most N ranks a host", "N ranks a host in turn, round and round"},
      {"the environment", "what -x names goes to other hosts", "all of it goes to all hosts"},
      {"standard output of ranks", "a terminal", "a pipe, but for programs of Open MPI"},
      {"neither -np nor hosts", "a rank a core", "1 rank"},
      {"several programs", "each has its -np", "one without -np has 1 rank"},
      {"a program of the working directory", "found without ./", "written ./program"},
      {"-wdir before one of several programs", "for that program", "for all"},
      {"--debug", "refused", "as -v"},
      {"--bind-to core:N", "refused", "N cores a rank"},
  };
  return all;
}

}  // namespace trainrun::cli
