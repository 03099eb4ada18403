// Everything that can happen to a job. The body turns the world into these; the brain sees nothing else.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "host-discovery/host.h"
#include "launcher/base/error.h"
#include "launcher/base/exit_status.h"
#include "launcher/base/id.h"
#include "launcher/base/time.h"

namespace trainrun::core {

struct Begin {};  // the first event: hosts are being dialled from now on

// The host's agent answers, and has found the programs and directories there.
struct HostReady {
  HostIndex host;
};
// The host could not be made ready; no worker ever ran there.
struct HostFailed {
  HostIndex host;
  Error error;
};
// The Link of a host that was ready is gone, or its agent fell silent: its workers are as good as dead.
struct HostLost {
  HostIndex host;
  std::string reason;
};
// Why the discovery has no answer now; empty: it has one again.
struct DiscoveryProblem {
  std::string what;
};
struct PortReserved {
  Generation generation;
};
struct PortRefused {
  Generation generation;
  Error error;
};
struct WorkerStarted {
  WorkerId worker;
  std::uint32_t pid = 0;
};
struct WorkerNotStarted {
  WorkerId worker;
  ExitStatus status;
};
// The process ended. `at` is on the launcher's clock; the true time is within `error` of it.
struct WorkerExited {
  WorkerId worker;
  ExitStatus status;
  Instant at{};
  Duration error{};
  std::string out_of_memory{};  // evidence, or empty
  std::string last_words{};     // the last line on its stderr that has arrived; may be empty
};
// ... and all its output is here. `lost_peer`: its last words are those of a program whose peer went away.
struct WorkerFinished {
  WorkerId worker;
  bool lost_peer = false;
};
struct HostStopped {
  HostIndex host;
  std::uint32_t leftovers = 0;
  bool killed = false;
  std::vector<std::string> names{};  // of the leftovers' programs; they may be anything
};
// What the dead workers of a host left behind is gone; the answer to Sweep.
struct HostSwept {
  HostIndex host;
  Generation generation;
  std::uint32_t leftovers = 0;
  bool killed = false;
};
// The host says itself that it will go away.
struct HostLeaving {
  HostIndex host;
  std::string reason;
};
// A discovery, or the user: these are the hosts now, in this order. Debounced: what is absent is gone.
struct HostsDiscovered {
  std::vector<Host> hosts;
};

// ---- what the rendezvous tells: only workers on `comm` come there
struct MemberJoined {
  Generation generation;
  Rank rank;
};
// All members met; `elastic`: every one of them can take its place in the next generation without a new
// process.
struct WorldJoined {
  Generation generation;
  bool elastic = false;
};
// The members themselves gave the generation up; `culprits` are those that did not take part.
struct WorldBroken {
  Generation generation;
  std::string reason;
  std::vector<Rank> culprits;
};
// The member has left the generation's work and waits for its place in the next.
struct MemberWaits {
  Generation generation;
  WorkerId worker;
};

// ---- a world that seems to hang
struct WorldSilent {
  Duration silence{};
};
struct WorkerInspected {
  WorkerId worker;
  bool stopped = false;  // by a signal: it cannot go on by itself
  std::string evidence;  // one line
};
struct InspectionDone {
  HostIndex host;
};

// ---- what `trainrun ctl` asks for
struct RemoveHost {
  std::string name;
};
struct AddHosts {
  std::vector<Host> hosts;
};
struct RestartWorld {};
struct RestartWorker {
  Rank rank;
};
// ... and do not start another in its slot.
struct StopWorker {
  Rank rank;
};

struct UserSignal {
  int number = 0;
};
struct OutputClosed {};  // nobody reads our stdout any more
enum class Deadline : std::uint8_t {
  start,    // hosts must be there
  job,      // --timeout
  grace,    // TERM was sent
  kill,     // KILL was sent
  stop,     // agents clear up
  sweep,    // agents clear up between two generations
  backoff,  // the next generation may form
  hosts,    // look at the hosts again: a rest ends, or one is to be dialled again
  settle,   // changes that are no failures are considered
  world,    // hosts that can hold a world must be there
  join,     // all members must be in the rendezvous
  leave,    // workers on a host that leaves must be gone
  inspect,  // the evidence must be there
  notice    // the end takes so long that it is worth a line
};
struct DeadlinePassed {
  Deadline deadline = Deadline::start;
};

using JobEvent =
    std::variant<Begin, HostReady, HostFailed, HostLost, PortReserved, PortRefused, WorkerStarted,
                 WorkerNotStarted, WorkerExited, WorkerFinished, HostStopped, HostSwept, HostLeaving,
                 HostsDiscovered, DiscoveryProblem, MemberJoined, WorldJoined, WorldBroken, MemberWaits,
                 WorldSilent, WorkerInspected, InspectionDone, RemoveHost, AddHosts, RestartWorld,
                 RestartWorker, StopWorker, UserSignal, OutputClosed, DeadlinePassed>;

}  // namespace trainrun::core
