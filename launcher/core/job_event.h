// Everything that can happen to a job. The body turns the world into these; the brain sees nothing else.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "host-discovery/host.h"
#include "launcher/base/compiled_once.h"
#include "launcher/base/error.h"
#include "launcher/base/exit_status.h"
#include "launcher/base/id.h"
#include "launcher/base/signal_set.h"
#include "launcher/base/time.h"
#include "launcher/core/odd_one_out.h"
#include "launcher/core/record.h"
#include "launcher/wire/facts.h"

namespace trainrun::core {

// The first event: hosts are being dialled from now on.
struct Begin {
  TRAINRUN_RECORD("begin") {}
};

// The host's agent answers, and has found the programs and directories there. Without facts nothing is known
// of its cores and GPUs, and any number of slots suits.
struct HostReady {
  HostIndex host;
  std::shared_ptr<const wire::HostFacts> facts{};
  TRAINRUN_RECORD("host ready") { v("host", host), v("facts", facts); }
};
// The host could not be made ready; no worker ever ran there.
struct HostFailed {
  HostIndex host;
  Error error;
  TRAINRUN_RECORD("host failed") { v("host", host), v("error", error); }
};
// The Link of a host that was ready is gone, or its agent fell silent: its workers are as good as dead.
struct HostLost {
  HostIndex host;
  std::string reason;
  Instant heard{};          // its last sign of life, where that is known
  bool gave_us_up = false;  // its agent did, since the launcher was stopped: nobody there is to blame
  bool closed = false;      // the Link was closed from there: agent or watcher end what is there
  TRAINRUN_RECORD("host lost") {
    v("host", host), v("reason", reason), v("heard", heard), v("gave_us_up", gave_us_up), v("closed", closed);
  }
};
// Why the discovery has no answer now; empty: it has one again.
struct DiscoveryProblem {
  std::string what;
  TRAINRUN_RECORD("discovery problem") { v("what", what); }
};
struct PortReserved {
  Generation generation;
  TRAINRUN_RECORD("port reserved") { v("generation", generation); }
};
struct PortRefused {
  Generation generation;
  Error error;
  TRAINRUN_RECORD("port refused") { v("generation", generation), v("error", error); }
};
struct WorkerStarted {
  WorkerId worker;
  std::uint32_t pid = 0;
  TRAINRUN_RECORD("worker started") { v("worker", worker), v("pid", pid); }
};
struct WorkerNotStarted {
  WorkerId worker;
  ExitStatus status;
  TRAINRUN_RECORD("worker not started") { v("worker", worker), v("status", status); }
};
// The process ended. `at` is when its agent found it so, on the launcher's clock; that moment is within
// `error` of it.
struct WorkerExited {
  WorkerId worker;
  ExitStatus status;
  Instant at{};
  Duration error{};
  std::string out_of_memory{};  // evidence, or empty
  std::string last_words{};     // the last line on its stderr that has arrived; may be empty
  SignalSet signalled{};        // what its agent had sent to it before it ended: by order, not by any clock
  bool lost_peer = false;       // as in WorkerFinished, from what has arrived
  bool raised = false;          // it has just printed the exception of a traceback
  TRAINRUN_RECORD("worker exited") {
    v("worker", worker), v("status", status), v("at", at), v("error", error),
        v("out_of_memory", out_of_memory), v("last_words", last_words), v("signalled", signalled),
        v("lost_peer", lost_peer), v("raised", raised);
  }
};
// ... and all its output is here. `lost_peer`: its last words are those of a program whose peer went away.
struct WorkerFinished {
  WorkerId worker;
  bool lost_peer = false;
  TRAINRUN_RECORD("worker finished") { v("worker", worker), v("lost_peer", lost_peer); }
};
// The program asks for the end of all ranks (MPI_Abort), and will end itself. Times as in WorkerExited.
struct WorkerAborted {
  WorkerId worker;
  int code = 0;
  Instant at{};
  Duration error{};
  std::string last_words{};
  bool lost_peer = false;  // it was MPI itself that could not reach a peer
  TRAINRUN_RECORD("worker aborted") {
    v("worker", worker), v("code", code), v("at", at), v("error", error), v("last_words", last_words),
        v("lost_peer", lost_peer);
  }
};
// Ranks of the generation wait for these, in MPI or in hvd.init, and they have ended: the others would wait
// for ever. Without culprits an exchange of MPI was too large, or an agent's part of it wrong.
struct ExchangeBroken {
  Generation generation;
  std::vector<Rank> culprits;
  std::string reason;
  bool horovod = false;
  TRAINRUN_RECORD("exchange broken") {
    v("generation", generation), v("culprits", culprits), v("reason", reason), v("horovod", horovod);
  }
};
struct HostStopped {
  HostIndex host;
  std::uint32_t leftovers = 0;
  bool killed = false;
  std::vector<std::string> names{};  // of the leftovers' programs; they may be anything
  TRAINRUN_RECORD("host stopped") {
    v("host", host), v("leftovers", leftovers), v("killed", killed), v("names", names);
  }
};
// What the dead workers of a host left behind is gone; the answer to Sweep.
struct HostSwept {
  HostIndex host;
  Generation generation;
  std::uint32_t leftovers = 0;
  bool killed = false;
  TRAINRUN_RECORD("host swept") {
    v("host", host), v("generation", generation), v("leftovers", leftovers), v("killed", killed);
  }
};
// The host says itself that it will go away.
struct HostLeaving {
  HostIndex host;
  std::string reason;
  TRAINRUN_RECORD("host leaving") { v("host", host), v("reason", reason); }
};
// A discovery, or the user: these are the hosts now, in this order. Debounced: what is absent is gone.
struct HostsDiscovered {
  std::vector<Host> hosts;
  TRAINRUN_RECORD("hosts discovered") { v("hosts", hosts); }
};

// ---- what the rendezvous tells: only workers on `comm` come there
struct MemberJoined {
  Generation generation;
  Rank rank;
  TRAINRUN_RECORD("member joined") { v("generation", generation), v("rank", rank); }
};
// All members met; `elastic`: every one of them can take its place in the next generation without a new
// process. `horovod`: they are Horovod's. Its newcomers have their place by their environment, and cannot
// take another before they have met the others; and ranks of a host must follow each other, as its slots do
// (core/replan.h).
struct WorldJoined {
  Generation generation;
  bool elastic = false;
  bool horovod = false;
  TRAINRUN_RECORD("world joined") {
    v("generation", generation), v("elastic", elastic), v("horovod", horovod);
  }
};
// The members themselves gave the generation up; `culprits` are those that did not take part.
struct WorldBroken {
  Generation generation;
  std::string reason;
  std::vector<Rank> culprits;
  TRAINRUN_RECORD("world broken") {
    v("generation", generation), v("reason", reason), v("culprits", culprits);
  }
};
// The member has left the generation's work and waits for its place in the next. Generation 0: a newcomer,
// which waits for its first.
struct MemberWaits {
  Generation generation;
  WorkerId worker;
  TRAINRUN_RECORD("member waits") { v("generation", generation), v("worker", worker); }
};

// A member has got on with its work since the generation came up.
struct WorldProgressed {
  Generation generation;
  TRAINRUN_RECORD("world progressed") { v("generation", generation); }
};

// Ranks wait for others in a store that is ours, PyTorch's (--torch-store) or Horovod's, which have not come
// so far.
struct AbsentWorker {
  WorkerId worker;
  std::string last_words{};
  template <class V>
  void fields(V& v) {
    v("worker", worker), v("last_words", last_words);
  }
};
struct RanksAbsent {
  Generation generation;
  std::vector<AbsentWorker> absent;  // in the order of ranks
  std::string waits_in{};            // the function in which the others are
  TRAINRUN_RECORD("ranks absent") {
    v("generation", generation), v("absent", absent), v("waits_in", waits_in);
  }
};

// ---- a world that seems to hang
struct WorldSilent {
  Duration silence{};
  std::vector<WorkerId> absent{};  // from PyTorch's store or hvd.init, where all others wait
  TRAINRUN_RECORD("world silent") { v("silence", silence), v("absent", absent); }
};
// Somebody was heard while they were looked at.
struct WorldAlive {
  TRAINRUN_RECORD("world alive") {}
};
struct WorkerInspected {
  WorkerId worker;
  bool stopped = false;  // by a signal: it cannot go on by itself
  std::string evidence;  // one line
  TRAINRUN_RECORD("worker inspected") { v("worker", worker), v("stopped", stopped), v("evidence", evidence); }
};
struct InspectionDone {
  HostIndex host;
  std::optional<OddOne> odd{};  // all ranks were seen, and it does something else than the others
  TRAINRUN_RECORD("inspection done") { v("host", host), v("odd", odd); }
};

// ---- what `trainrun ctl` asks for
struct RemoveHost {
  std::string name;
  TRAINRUN_RECORD("remove host") { v("name", name); }
};
struct AddHosts {
  std::vector<Host> hosts;
  TRAINRUN_RECORD("add hosts") { v("hosts", hosts); }
};
struct RestartWorld {
  TRAINRUN_RECORD("restart world") {}
};
struct RestartWorker {
  Rank rank;
  TRAINRUN_RECORD("restart worker") { v("rank", rank); }
};
// ... and do not start another in its slot.
struct StopWorker {
  Rank rank;
  TRAINRUN_RECORD("stop worker") { v("rank", rank); }
};

struct UserSignal {
  int number = 0;
  bool by_ctl = false;  // nobody sent it: `trainrun ctl end` asks for the same
  TRAINRUN_RECORD("user signal") { v("number", number), v("by_ctl", by_ctl); }
};
// Nobody reads our stdout any more.
struct OutputClosed {
  TRAINRUN_RECORD("output closed") {}
};
enum class Deadline : std::uint8_t {
  start,     // hosts must be there
  job,       // --timeout
  grace,     // TERM was sent
  kill,      // KILL was sent
  stop,      // agents clear up
  sweep,     // agents clear up between two generations
  backoff,   // the next generation may form
  hosts,     // look at the hosts again: a rest ends, or one is to be dialled again
  settle,    // changes that are no failures are considered
  world,     // hosts that can hold a world must be there
  join,      // all members must be in the rendezvous, or ask for their next place as others do
  leave,     // workers on a host that leaves must be gone
  inspect,   // the evidence must be there
  notice,    // the end takes so long that it is worth a line
  cause,     // ranks have lost a peer, and who that was is not known yet
  steady,    // the world has run for so long that it is no crash loop
  finish,    // members have finished: the others must have, or ask for another world
  newcomers  // newcomers must have asked for their place, or others may be started
};
constexpr Deadline last_deadline = Deadline::newcomers;
std::string_view to_string(Deadline deadline);
// When it passes, hosts are judged by what they have not told.
bool judges_hosts(Deadline deadline);
// What the host told after `until` is still on its way, as behind output on a slow link; or, where it is
// `silent`, nothing comes of it at all.
struct LateHost {
  HostIndex host;
  Instant until{};
  bool silent = false;
  template <class V>
  void fields(V& v) {
    v("host", host), v("until", until), v("silent", silent);
  }
};
struct DeadlinePassed {
  Deadline deadline = Deadline::start;
  std::vector<LateHost> late{};  // only where the deadline judges hosts
  TRAINRUN_RECORD("deadline passed") { v("deadline", deadline), v("late", late); }
};

struct JobEvent
    : std::variant<Begin, HostReady, HostFailed, HostLost, PortReserved, PortRefused, WorkerStarted,
                   WorkerNotStarted, WorkerExited, WorkerFinished, WorkerAborted, ExchangeBroken, HostStopped,
                   HostSwept, HostLeaving, HostsDiscovered, DiscoveryProblem, MemberJoined, WorldJoined,
                   WorldBroken, MemberWaits, WorldProgressed, RanksAbsent, WorldSilent, WorldAlive,
                   WorkerInspected, InspectionDone, RemoveHost, AddHosts, RestartWorld, RestartWorker,
                   StopWorker, UserSignal, OutputClosed, DeadlinePassed> {
  TRAINRUN_COMPILED_ONCE(JobEvent)
};

}  // namespace trainrun::core
