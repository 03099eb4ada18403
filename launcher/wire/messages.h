// What launcher and agent say to each other over a Link; the rest of it is in stream_messages.h,
// stdin_messages.h, exchange_messages.h and death_messages.h. Plain structs; `type` is the byte on the wire
// and is never used again for another meaning. Times are nanoseconds of the agent's CLOCK_MONOTONIC.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/base/exit_status.h"
#include "launcher/base/id.h"
#include "launcher/base/signal_set.h"
#include "launcher/wire/exchange_messages.h"
#include "launcher/wire/facts.h"
#include "launcher/wire/preload.h"
#include "launcher/wire/stdin_messages.h"
#include "launcher/wire/stream_messages.h"

namespace trainrun::wire {

constexpr std::uint32_t protocol_version = 11;
using EnvPairs = std::vector<std::pair<std::string, std::string>>;

enum class Output : std::uint8_t { out = 1, err = 2 };
constexpr bool is_known(Output output) { return output == Output::out || output == Output::err; }
enum class StdinMode : std::uint8_t {
  null,
  relay,
  inherit
};  // inherit: the agent's own stdin, local jobs only
constexpr bool is_known(StdinMode mode) { return mode <= StdinMode::inherit; }

#define TRAINRUN_MESSAGE(number)               \
  static constexpr std::uint8_t type = number; \
  template <class V>                           \
  void fields([[maybe_unused]] V& v)

// Who serves ranks that speak PMIx (agent/pmix_helper.h): nobody; a helper where a program looks as if it
// needs one; also where it is an interpreter, which may load an MPI while it runs; or a helper in any case.
enum class OfferPmix : std::uint8_t { never, by_program, interpreters_too, always };
constexpr bool is_known(OfferPmix offer) { return offer <= OfferPmix::always; }

// What the ranks of one part of a job are to run.
struct Command {
  std::vector<std::string> argv;
  std::string directory;
  template <class V>
  void fields(V& v) {
    v("argv", argv), v("directory", directory);
  }
};

// ---- launcher to agent

// The first message, answered by Greeted. What concerns the agent and its host, whatever job is to come.
struct Greet {
  std::uint32_t version = protocol_version;
  std::uint32_t host_timeout_ms = 0;  // silence after which the agent takes the launcher for dead
  bool want_topology = false;         // sockets and NUMA in the facts: only needed for binding
  bool want_addresses = true;         // of the interfaces: a job on this host alone needs none
  std::string faults;                 // see base/fault.h; empty but in tests
  TRAINRUN_MESSAGE(15) {
    v("version", version), v("host_timeout_ms", host_timeout_ms), v("want_topology", want_topology);
    v("want_addresses", want_addresses), v("faults", faults);
  }
};

// Once, after Greet. The agent checks what it can (`programs`, `directories`) and answers Prepared.
struct OpenJob {
  std::string job_id, host_name;
  HostIndex host;   // its place in the job's list
  std::string key;  // text of the 0600 file in the job's directory by which workers know the job's key
  std::uint64_t credit = 0;    // bytes of workers' output that may be under way; see Credit
  std::uint32_t grace_ms = 0;  // between TERM and KILL when the agent must end its workers by itself
  bool own_directory = true;   // make a private directory for the job
  bool elastic = false;        // on TERM or USR1 say Leaving and go on for the grace, instead of ending
  EnvPairs env;                // of every worker of this job
  std::vector<std::string> programs,
      directories,                // programs[i] is looked up from directories[i] with env's PATH
      scripts;                    // what programs[i] is to run, if it is an interpreter; else empty
  std::vector<Command> commands;  // of the parts that come here: whose MPI are they?
  OfferPmix pmix = OfferPmix::never;
  std::string pmix_library;  // --pmix-lib; empty: the one that fits the program
  Preload preload;
  TRAINRUN_MESSAGE(16) {
    v("job_id", job_id), v("host_name", host_name), v("host", host), v("key", key), v("credit", credit);
    v("grace_ms", grace_ms), v("own_directory", own_directory), v("elastic", elastic), v("env", env);
    v("programs", programs), v("directories", directories), v("scripts", scripts), v("commands", commands);
    v("pmix", pmix), v("pmix_library", pmix_library), v("preload", preload);
  }
};

// Where a rank sits, for the programs that ask its agent (see agent/pmi_world.h).
struct Place {
  Rank rank;
  std::uint32_t size = 0;
  std::uint32_t local_size = 0;  // ranks of this world on this host
  std::uint32_t program = 0;     // which part of an MPMD job
  std::string mapping;           // core/process_mapping.h; empty: too long to tell
  template <class V>
  void fields(V& v) {
    v("rank", rank), v("size", size), v("local_size", local_size), v("program", program);
    v("mapping", mapping);
  }
};

struct Start {
  WorkerId worker;
  Generation generation;
  std::vector<std::string> argv;
  EnvPairs env;  // over OpenJob's
  std::string directory;
  std::vector<std::uint32_t> cpus;  // empty: not bound
  StdinMode stdin_mode = StdinMode::null;
  bool pmi = false;  // io::spawn_fourth is a socket on which the agent speaks PMI-1
  Place place;
  bool pmix = false;   // it gets the variables of the agent's helper; its World came before
  bool pty = false;    // its stdout is a terminal, where the host has any
  bool batch = false;  // under SCHED_BATCH
  TRAINRUN_MESSAGE(2) {
    v("worker", worker), v("generation", generation), v("argv", argv), v("env", env),
        v("directory", directory);
    v("cpus", cpus), v("stdin_mode", stdin_mode), v("pmi", pmi), v("place", place);
    v("pmix", pmix), v("pty", pty), v("batch", batch);
  }
};

// To each worker named; no worker named: all. An order to end overtakes the starts that wait before it, each
// of which is answered by NotStarted with ECANCELED. A request (TERM, USR1, ...) goes to the worker's own
// process and what a shell there runs, any other signal to its process group. `deep` also reaches what left
// the group (daemons, grandchildren in sessions of their own), whether or not their worker still lives.
struct Signal {
  std::vector<WorkerId> workers;
  std::int32_t number = 0;
  bool deep = false;
  bool ending = false;  // they are to end: those that were ordered and do not run yet are not started
  TRAINRUN_MESSAGE(3) { v("workers", workers), v("number", number), v("deep", deep), v("ending", ending); }
};

// So many more bytes of output may be sent. Without credit an agent stops reading its workers' pipes.
struct Credit {
  std::uint64_t bytes = 0;
  TRAINRUN_MESSAGE(5) { v("bytes", bytes); }
};

struct Ping {
  std::uint32_t sequence = 0;
  TRAINRUN_MESSAGE(6) { v("sequence", sequence); }
};

// The launcher is about to be stopped (^Z) or goes on: its silence means nothing meanwhile.
struct Pause {
  bool on = false;
  TRAINRUN_MESSAGE(7) { v("on", on); }
};

// Bind a port that no one else gets, without listening on it, or look whether `first` could be bound and let
// it go; answered by PortHeld.
struct HoldPort {
  std::uint16_t first = 0, last = 0;  // 0: any
  bool only_look = false;
  TRAINRUN_MESSAGE(8) { v("first", first), v("last", last), v("only_look", only_look); }
};

// End what is left of the job on this host (TERM, grace, KILL), remove the job's directory, answer Stopped,
// and go.
struct Stop {
  TRAINRUN_MESSAGE(10) {}
};

// Ends every process of these workers, whose leaders are dead, and of any other dead worker when none is
// named (TERM, grace, KILL; KILL at once when `now`); answered by Swept.
struct Sweep {
  std::uint32_t sequence = 0;
  std::vector<WorkerId> workers;
  bool now = false;
  TRAINRUN_MESSAGE(11) { v("sequence", sequence), v("workers", workers), v("now", now); }
};

// What do the workers do? For a world that seems to hang. Answered by one Inspected for each that lives, then
// InspectionDone.
struct Inspect {
  std::uint32_t sequence = 0;
  std::uint32_t sample_ms = 0;  // over which CPU and I/O are measured
  TRAINRUN_MESSAGE(12) { v("sequence", sequence), v("sample_ms", sample_ms); }
};

// All of a generation, to an agent that serves PMIx (ProgramFacts::pmix_library), before its first Start:
// ranks may ask about each other what they like.
struct World {
  Generation generation;
  std::uint32_t restarts = 0;
  std::vector<std::string> hosts;                            // their names, each once
  std::uint32_t here = 0;                                    // which of them is the agent's
  std::vector<std::uint32_t> host_of_rank, program_of_rank;  // into `hosts` and `programs`
  std::vector<Command> programs;
  std::vector<std::vector<std::uint32_t>> cpus;  // of the ranks here, ascending; empty: none is bound
  bool oversubscribed = false;                   // more ranks here than cores
  std::string mapping;                           // as in Place
  TRAINRUN_MESSAGE(13) {
    v("generation", generation), v("restarts", restarts), v("hosts", hosts), v("here", here);
    v("host_of_rank", host_of_rank), v("program_of_rank", program_of_rank), v("programs", programs);
    v("cpus", cpus), v("oversubscribed", oversubscribed), v("mapping", mapping);
  }
};

// ---- both ways

// What ranks exchange: exchange_messages.h. Doors and their streams: stream_messages.h.

// ---- agent to launcher

struct Hello {
  std::uint32_t version = protocol_version;
  std::uint32_t pid = 0;
  TRAINRUN_MESSAGE(40) { v("version", version), v("pid", pid); }
};

// Instead of Hello, and the last message: the agent's watcher could not fork it.
struct NoAgent {
  std::int32_t error = 0;  // errno
  TRAINRUN_MESSAGE(65) { v("error", error); }
};

struct Problem {
  // pmix: a program that is one of Open MPI, and no libpmix is here. pmix_library: --pmix-lib is not here.
  // bad_pmix: a libpmix, which is no library.
  enum class Kind : std::uint8_t { program, directory, job_directory, script, pmix, pmix_library, bad_pmix };
  friend constexpr bool is_known(Kind kind) { return kind <= Kind::bad_pmix; }
  Kind kind = Kind::program;
  std::string what;
  std::int32_t error = 0;  // errno
  template <class V>
  void fields(V& v) {
    v("kind", kind), v("what", what), v("error", error);
  }
};

struct Greeted {
  HostFacts facts;  // but for those about programs, which come with Prepared
  TRAINRUN_MESSAGE(66) { v("facts", facts); }
};

struct Prepared {
  ProgramFacts programs;
  std::string job_directory;
  std::vector<Problem> problems;
  TRAINRUN_MESSAGE(64) {
    v("programs", programs), v("job_directory", job_directory), v("problems", problems);
  }
};

struct Started {
  WorkerId worker;
  std::uint32_t pid = 0;
  std::int64_t at_ns = 0;
  TRAINRUN_MESSAGE(42) { v("worker", worker), v("pid", pid), v("at_ns", at_ns); }
};

struct NotStarted {
  WorkerId worker;
  SpawnStage stage = SpawnStage::none;
  std::int32_t error = 0;
  std::int64_t at_ns = 0;
  TRAINRUN_MESSAGE(43) { v("worker", worker), v("stage", stage), v("error", error), v("at_ns", at_ns); }
};

struct OutputBytes {
  WorkerId worker;
  Output stream = Output::out;
  std::string_view bytes;  // decoded: points into the frame
  TRAINRUN_MESSAGE(44) { v("worker", worker), v("stream", stream), v("bytes", bytes); }
};

struct Exited {
  WorkerId worker;
  std::int32_t raw_status = 0;  // as waitpid gives it
  std::int64_t at_ns = 0;
  std::uint64_t peak_rss_kib = 0;
  std::string out_of_memory;  // evidence of a kill by the kernel for memory, or empty
  bool in_mpi = false;        // it had called MPI_Init, and not MPI_Finalize
  SignalSet signalled{};      // by our orders, while it lived
  TRAINRUN_MESSAGE(45) {
    v("worker", worker), v("raw_status", raw_status), v("at_ns", at_ns), v("peak_rss_kib", peak_rss_kib);
    v("out_of_memory", out_of_memory), v("in_mpi", in_mpi), v("signalled", signalled.bits);
  }
};

// Before Exited, of a worker that ended badly: what it wrote into the file named by TORCHELASTIC_ERROR_FILE.
struct ErrorFile {
  WorkerId worker;
  std::string text;  // at most 64 KiB
  TRAINRUN_MESSAGE(60) { v("worker", worker), v("text", text); }
};

// The program asks for the end of all ranks (MPI_Abort). Its own end is told as any other.
struct Aborted {
  WorkerId worker;
  std::int32_t code = 0;
  std::int64_t at_ns = 0;
  TRAINRUN_MESSAGE(58) { v("worker", worker), v("code", code), v("at_ns", at_ns); }
};

// Reaped, and its output is through (pipes at their end, or the drain deadline passed).
struct Finished {
  WorkerId worker;
  TRAINRUN_MESSAGE(46) { v("worker", worker); }
};
struct Pong {
  std::uint32_t sequence = 0;
  std::int64_t at_ns = 0;
  TRAINRUN_MESSAGE(47) { v("sequence", sequence), v("at_ns", at_ns); }
};

struct Note {
  std::string text;
  TRAINRUN_MESSAGE(48) { v("text", text); }
};

struct PortsOfRank {
  WorkerId worker;
  std::vector<std::uint16_t> listens{}, reaches{};  // at which it listens, to which it is connected; some
  template <class V>
  void fields(V& v) {
    v("worker", worker), v("listens", listens), v("reaches", reaches);
  }
};
// How far the ranks here have come to a store of PyTorch's that rank 0 holds, until all have met.
struct StoreSeen {
  Generation generation;
  std::vector<WorkerId> met{};        // have had a connection to it, or listened for the others
  std::vector<WorkerId> apart{};      // have loaded PyTorch, and had none
  std::vector<WorkerId> away{};       // have not, or have trainrun's library, by which they may meet
  std::uint16_t port = 0;             // of the store
  std::vector<WorkerId> hosts{};      // of `met`: listen there themselves
  std::vector<PortsOfRank> others{};  // of `apart`: other ports that they use
  bool traces = false;                // somebody is or was lately connected to the port
  bool unasked = false;               // a script that stays alone here unless it is told to use the CPU
  bool own_meeting = false;           // a script names a place of its own to meet at
  std::uint32_t idle_ms = 0;  // so long rank 0 has had no connection but one of each rank to its store
  TRAINRUN_MESSAGE(61) {
    v("generation", generation), v("met", met), v("apart", apart), v("away", away), v("port", port);
    v("hosts", hosts), v("others", others), v("traces", traces), v("unasked", unasked);
    v("own", own_meeting), v("idle_ms", idle_ms);
  }
};

struct PortHeld {
  std::uint16_t port = 0;
  std::int32_t error = 0;
  std::string holder{};  // who has the port, if the agent may see it: "python3, pid 1234"
  TRAINRUN_MESSAGE(50) { v("port", port), v("error", error), v("holder", holder); }
};

struct Stopped {
  std::uint32_t leftovers = 0;       // processes that outlived their worker and had to be ended
  bool killed = false;               // some of them only by KILL
  std::vector<std::string> names{};  // of their programs, each once, a few
  TRAINRUN_MESSAGE(53) { v("leftovers", leftovers), v("killed", killed), v("names", names); }
};

struct Swept {
  std::uint32_t sequence = 0;
  std::uint32_t leftovers = 0;  // processes that outlived their worker and were told to end
  bool killed = false;          // some of them only by KILL
  std::uint32_t stuck = 0;      // still there 2 s after KILL: they hang in the kernel
  TRAINRUN_MESSAGE(54) {
    v("sequence", sequence), v("leftovers", leftovers), v("killed", killed), v("stuck", stuck);
  }
};

// The host will go away (a signal to the agent): its workers should be moved while there is time.
struct Leaving {
  std::string reason;  // "the agent got SIGTERM"
  TRAINRUN_MESSAGE(55) { v("reason", reason); }
};

struct Inspected {
  std::uint32_t sequence = 0;
  WorkerId worker;
  std::string state;           // letter of /proc/PID/stat: R, S, D, T
  std::uint64_t cpu_ms = 0;    // used by the worker and its children within the sample
  std::uint64_t io_bytes = 0;  // read and written within the sample
  std::string waits_in;        // /proc/PID/wchan, or empty
  std::string stack;           // of every thread as far as the system shows it; at most 64 KiB
  TRAINRUN_MESSAGE(56) {
    v("sequence", sequence), v("worker", worker), v("state", state), v("cpu_ms", cpu_ms);
    v("io_bytes", io_bytes), v("waits_in", waits_in), v("stack", stack);
  }
};
struct InspectionDone {
  std::uint32_t sequence = 0;
  TRAINRUN_MESSAGE(57) { v("sequence", sequence); }
};

#undef TRAINRUN_MESSAGE

}  // namespace trainrun::wire
