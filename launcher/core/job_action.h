// Everything that the brain can order. The body performs these in the order given and decides nothing.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/core/job_event.h"
#include "launcher/core/outcome.h"
#include "launcher/core/placement.h"

namespace trainrun::core {

// A host that nobody knew before; it comes before anything else that names it, at the end of the list.
struct AddHost {
  HostIndex host;
  Host as;
};
// Get an agent running there; answered by HostReady or HostFailed. A host that was given up, or was lost, may
// be dialled again; nothing of the earlier agent is heard any more then.
struct DialHost {
  HostIndex host;
};
// Make sure that rank 0's host has a port for the generation's MASTER_PORT; answered by PortReserved or
// PortRefused.
struct ReservePort {
  Generation generation;
  HostIndex host;
  bool operator==(const ReservePort&) const = default;
};
// The generation begins: the placement and who sits where. Workers that live already take their new place by
// themselves.
struct BeginWorld {
  Placement placement;
  std::vector<WorkerId> workers;  // by rank
  std::uint32_t restarts = 0;     // after failures, up to now
};
struct StartWorker {
  WorkerId worker;
  Generation generation;
  Rank rank;
  std::uint32_t slots = 1;  // among which the cores of its host are divided; the seat's slot is one of them
};
// To workers on every ready host, all when none is named; `deep` reaches daemons and grandchildren too (only
// without names).
struct SignalWorkers {
  int number = 0;
  bool deep = false;
  std::vector<WorkerId> workers{};
};
// End what dead workers left on the host, all of them when none is named; answered by HostSwept if
// `generation` is set.
struct Sweep {
  HostIndex host;
  std::optional<Generation> generation;
  std::vector<WorkerId> workers{};
};
// Tell the members of a generation that the world is about to change, so that they come by themselves.
struct Announce {
  Generation generation;
  bool hosts_come = false, hosts_leave = false;
  std::vector<WorkerId> leaving{};  // these should stop
};
// There is no place for this member in the next generation.
struct Dismiss {
  WorkerId worker;
};
// Find out what every worker does; answered by WorkerInspected for each and InspectionDone for each ready
// host.
struct Inspect {};
// Ask the discovery again, without waiting for its interval.
struct AskForHosts {};
// The generation is over for whoever waits in the rendezvous. `culprit` has a rank when a worker is the
// cause.
struct EndGeneration {
  Generation generation;
  std::optional<Rank> culprit;
  std::string reason;  // with a culprit: how it ended; else what ended the generation
};
struct StopHost {
  HostIndex host;
};
// Give up on the host: close its Link (its agent then ends what is there), stop dialling it.
struct AbandonHost {
  HostIndex host;
};
struct Arm {
  Deadline deadline = Deadline::start;
  Instant at{};
};
struct Disarm {
  Deadline deadline = Deadline::start;
};
// A line for the user; `detail` ones only with -v.
struct Say {
  std::string text;
  bool detail = false;
};
struct Finish {
  Outcome outcome;
};

using JobAction = std::variant<AddHost, DialHost, ReservePort, BeginWorld, StartWorker, SignalWorkers, Sweep,
                               Announce, Dismiss, Inspect, AskForHosts, EndGeneration, StopHost, AbandonHost,
                               Arm, Disarm, Say, Finish>;
using JobActions = std::vector<JobAction>;

}  // namespace trainrun::core
