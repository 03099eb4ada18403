// What the user asked for, after all flags, files and environments are merged. It never changes after the
// start; the body appends hosts that are found later to `hosts` of a copy of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host-discovery/host.h"
#include "launcher/base/time.h"

namespace trainrun {

enum class MapBy : std::uint8_t { slot, host, ppr };
// In which order the places of a mapping are numbered: its own, host by host, or one of each host in turn.
enum class RankBy : std::uint8_t { mapping, slot, host };
// automatic: as Open MPI's mpirun binds: a core up to 2 ranks, else a socket, and none on a host that has
// fewer cores than ranks.
enum class BindTo : std::uint8_t { none, core, l3cache, numa, socket, automatic };
// What ranks may be counted by.
enum class HostPart : std::uint8_t { host, socket, numa, l3cache, core };
enum class Tag : std::uint8_t { automatic, none, rank, host };  // automatic: rank when there is more than one
enum class StdinTo : std::uint8_t { rank, all, none };
enum class EnvPolicy : std::uint8_t { by_default, all, none };
// Which launchers a rank finds ours to be like: those of MPICH and Intel MPI (PMI-1), Open MPI's (PMIx),
// Horovod's. automatic: the first always, the others on hosts where a program looks as if it needed them.
enum class Compat : std::uint8_t { automatic, mpich, open_mpi, none, horovod };
// Where PyTorch's ranks meet: in a store that rank 0 opens on its host, or in ours.
enum class TorchStore : std::uint8_t { rank0, trainrun };
enum class TransportKind : std::uint8_t { automatic, local, ssh, openssh };
// What follows when a worker fails or a host is lost.
//   automatic      in_place when every worker of the generation takes part (comm's elastic run loop), else
//                  restart_world
//   abort          the job ends
//   restart_world  all workers stop, and a new generation starts from the program's own checkpoint
//   in_place       survivors keep their process; the failed slot is filled anew
//   ignore         the others go on, fewer (MPI's ULFM); only when all have failed has the job
enum class OnFailure : std::uint8_t { abort, automatic, restart_world, in_place, ignore };
// Where the list of hosts comes from while the job runs.
enum class DiscoveryKind : std::uint8_t { none, script, file, dns, slurm };

using EnvVar = std::pair<std::string, std::string>;  // name, value

// What a command leads to on the launcher's host. Every host must have it there.
struct FoundProgram {
  std::string name;      // as it was looked up in PATH; empty: it was given as a path
  std::string path;      // absolute
  std::string script{};  // whose first line names it; else empty
};

// One part of an MPMD line (`trainrun -np 1 ./server : -np 7 ./client`); an ordinary job has exactly one.
struct Program {
  std::vector<std::string> argv;  // a name without a slash is looked up on each host, in the worker's PATH
  int np = 0;                     // ranks of this part; 0 only before placement fills it in
  std::string directory;          // absolute; must exist on every host
  std::vector<EnvVar> env{};      // -x of this part only, over the job's environment
  std::vector<FoundProgram> found{};  // of argv and of what it leads to (`env`, a `#!` line); --resolve once
  std::string script{};               // what an interpreter is asked to run, see core/script.h; else empty
};

struct SshOptions {
  std::uint16_t port = 0;  // 0: ~/.ssh/config's or 22
  std::string identity{};
  std::string config_file{};  // --ssh-config; empty: the user's and the system's
  bool accept_new = false;    // add unknown host keys to known_hosts instead of refusing
  std::string agent_dir{};    // --agent-dir; empty: ~/.cache/trainrun on the host
};

struct PortRange {
  std::uint16_t first = 0, last = 0;  // 0,0: any
};

struct DiscoverySpec {
  DiscoveryKind kind = DiscoveryKind::none;
  std::string
      source{};  // command line for /bin/sh, path, or DNS name; empty for slurm (the job of the environment)
  int default_slots = 1;  // --slots-per-host: of a host without a count
  bool default_slots_given = false;
  Duration interval = seconds(1);  // between the end of one question and the next
  Duration limit = seconds(30);    // of one run of the script
};

// At most `count` restarts after failures within `window`; planned changes of the world do not count.
struct RestartLimit {
  int count = 10;
  Duration window = seconds(3600);
};

struct Elastic {
  OnFailure on_failure = OnFailure::abort;
  int min_np = 0, max_np = 0;  // world sizes that are acceptable; 0: exactly the -np of the job
  int spares = 0;              // slots kept ready beyond the world
  DiscoverySpec discovery;
  RestartLimit limit;
  Duration timeout = seconds(600);  // how long the job waits for hosts that can hold min_np
  Duration cooldown_min = seconds(10), cooldown_max = seconds(300);  // of a blamed host; doubles each time
  Duration settle = seconds(2);          // changes that are not failures are batched for so long
  std::optional<Duration> hang_timeout;  // no sign of life of any rank for so long: the world hangs
  int leave_signal = 15;                 // what workers get on a host that will leave; SIGTERM

  [[nodiscard]] bool enabled() const {
    return on_failure != OnFailure::abort && on_failure != OnFailure::ignore;
  }
};

// --preload (decision 0026): Python ranks are forked from a process that has imported already.
struct PreloadSpec {
  bool automatic = false;  // what the script's own imports name
  std::vector<std::string> modules{};

  [[nodiscard]] bool wanted() const { return automatic || !modules.empty(); }
};

// --map-by ppr:N:PART: so many ranks for each such part of a host. Every host is taken to have as many of
// them as the launcher's own, and refused where it has others.
struct PerPart {
  HostPart part = HostPart::host;
  int ranks = 0;
  int parts = 0;  // of a host
};

// Cores by their place on the host, counted from 0: of one socket, or of all. `last` may lie beyond the end.
struct CoreRange {
  std::int32_t socket = -1;  // -1: of all sockets, one after the other
  std::uint32_t first = 0, last = 0;

  friend bool operator==(const CoreRange&, const CoreRange&) = default;
};

// A rank's line in --rankfile.
struct RankPlace {
  std::uint32_t host = 0;          // index in JobSpec::hosts
  std::vector<CoreRange> cores{};  // that it is bound to; empty: as --bind-to says

  friend bool operator==(const RankPlace&, const RankPlace&) = default;
};

// Under which of Linux's policies ranks run (core/scheduling.h).
enum class Scheduling : std::uint8_t { automatic, batch, normal };

// torchrun's --redirects: streams of a rank that go to the files only.
struct Redirect {
  std::int32_t local_rank = -1;  // -1: of all that have none of their own
  bool out = false, err = false;
};

struct JobSpec {
  std::string id;  // 16 hex digits, fresh for each job
  HostSet hosts;
  std::string slots_from;         // the host file that counts their slots, as the user named it; else empty
  std::vector<Program> programs;  // np of all parts is filled in
  std::vector<EnvVar> env;        // what every host gets, sorted by name; without rank variables
  bool inherit_all = false;       // a job on this host alone: env is the launcher's whole environment
  std::vector<std::string> not_forwarded{};  // names that stayed behind, for the one line that says so

  MapBy map_by = MapBy::slot;
  RankBy rank_by = RankBy::mapping;  // not of an elastic job
  int ppr = 0;                       // --map-by ppr:N:host, --ppn; 0: no limit but the slots
  PerPart per_part;                  // of ppr:N:socket and its like; ppr is what they come to on a host
  std::vector<RankPlace>
      rank_file{};  // --rankfile, by rank: the first of them are taken; empty: there is none
  bool oversubscribe = false;
  BindTo bind_to = BindTo::none;
  bool report_bindings = false;
  int cpus_per_rank = 0;  // 0: not given
  int gpus_per_rank = 0;  // 0: all visible to every rank

  Compat compat = Compat::automatic;
  std::string pmix_library{};    // --pmix-lib; empty: each host's own choice
  bool as_mpirun = false;        // called as Open MPI's mpirun: scripts look for the variables that it sets
  bool as_mpi_launcher = false;  // as that, or as mpiexec: what a program starts or loads may be of any MPI

  TorchStore torch_store = TorchStore::rank0;
  PreloadSpec preload;
  std::string role = "default";     // ROLE_NAME
  std::string run_id{};             // TORCHELASTIC_RUN_ID; empty: the job's id
  bool virtual_local_rank = false;  // LOCAL_RANK is 0 for all: each sees its own GPU only
  Scheduling scheduling = Scheduling::automatic;

  TransportKind transport = TransportKind::automatic;
  SshOptions ssh;
  std::string network_interface{};
  std::uint16_t master_port = 0;  // 0: reserved at the start
  PortRange ports;

  std::optional<Duration> timeout;  // of the whole job
  Duration start_timeout = seconds(60);
  Duration grace = seconds(10);
  Duration host_timeout = seconds(10);

  Tag tag = Tag::automatic;
  bool timestamp = false;
  std::string output_directory{};  // --output-filename
  std::vector<int> only_ranks{};   // empty: all are shown
  std::vector<int> only_local_ranks{};
  std::vector<Redirect> redirects{};
  std::string events{};   // --events: a path, or fd:N; empty: none
  std::string journal{};  // --journal: the same, and a directory
  Elastic elastic;
  std::optional<bool> pty{};  // stdout of ranks is a terminal; nothing: that of Open MPI programs
  StdinTo stdin_to = StdinTo::rank;
  int stdin_rank = 0;
  bool quiet = false;
  bool start_timeout_given = false;  // an elastic job ends where it would else wait for --elastic-timeout
  int verbose = 0;

  [[nodiscard]] int world_size() const {
    int sum = 0;
    for (const auto& program : programs) sum += program.np;
    return sum;
  }
};

}  // namespace trainrun
