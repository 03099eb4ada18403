// Everything that the brain can order. The body performs these in the order given and decides nothing.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "launcher/base/compiled_once.h"
#include "launcher/core/cause.h"
#include "launcher/core/job_event.h"
#include "launcher/core/notice.h"
#include "launcher/core/outcome.h"
#include "launcher/core/placement.h"
#include "launcher/core/share.h"

namespace trainrun::core {

// A host that nobody knew before; it comes before anything else that names it, at the end of the list.
struct AddHost {
  HostIndex host;
  Host as;
  TRAINRUN_RECORD("add host") { v("host", host), v("as", as); }
};
// Get an agent running there; answered by HostReady or HostFailed. A host that was given up, or was lost, may
// be dialled again; nothing of the earlier agent is heard any more then.
struct DialHost {
  HostIndex host;
  TRAINRUN_RECORD("dial host") { v("host", host); }
};
// Make sure that rank 0's host has a port for the generation's MASTER_PORT; answered by PortReserved or
// PortRefused.
struct ReservePort {
  Generation generation;
  HostIndex host;
  TRAINRUN_RECORD("reserve port") { v("generation", generation), v("host", host); }
};
// The generation begins: the placement and who sits where. Workers that live already take their new place by
// themselves.
struct BeginWorld {
  Placement placement;
  std::vector<WorkerId> workers;  // by rank
  std::uint32_t restarts = 0;     // after failures, up to now
  TRAINRUN_RECORD("begin world") {
    v("placement", placement), v("workers", workers), v("restarts", restarts);
  }
};
// What the world will be with its newcomers: `workers` are those, in the last seats, by rank. Those that do
// not live yet are started next, in generation 0. They are no members before a generation begins with them.
struct PlanNewcomers {
  Placement placement;
  std::vector<WorkerId> workers;
  TRAINRUN_RECORD("plan newcomers") { v("placement", placement), v("workers", workers); }
};
struct StartWorker {
  WorkerId worker;
  Generation generation;
  Rank rank;
  Share share{};  // of its machine; one that lacks something is not started: the body says so, and answers
  TRAINRUN_RECORD("start worker") {
    v("worker", worker), v("generation", generation), v("rank", rank), v("share", share);
  }
};
// To workers on every ready host, all when none is named; `deep` reaches daemons and grandchildren too (only
// without names).
struct SignalWorkers {
  int number = 0;
  bool deep = false;
  std::vector<WorkerId> workers{};
  TRAINRUN_RECORD("signal workers") { v("number", number), v("deep", deep), v("workers", workers); }
};
// End what dead workers left on the host, all of them when none is named; answered by HostSwept if
// `generation` is set.
struct Sweep {
  HostIndex host;
  std::optional<Generation> generation;
  std::vector<WorkerId> workers{};
  TRAINRUN_RECORD("sweep") { v("host", host), v("generation", generation), v("workers", workers); }
};
// Tell the members of a generation that the world is about to change, so that they come by themselves.
struct Announce {
  Generation generation;
  bool hosts_come = false, hosts_leave = false;
  std::vector<WorkerId> leaving{};  // these should stop
  TRAINRUN_RECORD("announce") {
    v("generation", generation), v("hosts_come", hosts_come), v("hosts_leave", hosts_leave),
        v("leaving", leaving);
  }
};
// There is no place for this member in the next generation.
struct Dismiss {
  WorkerId worker;
  TRAINRUN_RECORD("dismiss") { v("worker", worker); }
};
// Find out what every worker does; answered by WorkerInspected for each and InspectionDone for each ready
// host.
struct Inspect {
  TRAINRUN_RECORD("inspect") {}
};
// Ask the discovery again, without waiting for its interval.
struct AskForHosts {
  TRAINRUN_RECORD("ask for hosts") {}
};
// The generation is over for whoever waits in the rendezvous. `culprit` has a rank when a worker is the
// cause. `free_survivors`: it has failed or lost a member, others stay, and may wait in it for each other.
struct EndGeneration {
  Generation generation;
  std::optional<Rank> culprit;
  Cause cause;
  bool job_ends = false;  // no generation follows
  bool free_survivors = false;
  TRAINRUN_RECORD("end generation") {
    v("generation", generation), v("culprit", culprit), v("cause", cause), v("job_ends", job_ends),
        v("free_survivors", free_survivors);
  }
};
struct StopHost {
  HostIndex host;
  TRAINRUN_RECORD("stop host") { v("host", host); }
};
// Give up on the host: close its Link (its agent then ends what is there), stop dialling it.
struct AbandonHost {
  HostIndex host;
  TRAINRUN_RECORD("abandon host") { v("host", host); }
};
struct Arm {
  Deadline deadline = Deadline::start;
  Instant at{};
  TRAINRUN_RECORD("arm") { v("deadline", deadline), v("at", at); }
};
struct Disarm {
  Deadline deadline = Deadline::start;
  TRAINRUN_RECORD("disarm") { v("deadline", deadline); }
};
// For the user, and for whoever else listens. The words are made elsewhere.
struct Tell {
  Notice notice;
  TRAINRUN_RECORD("tell") { v("notice", notice); }
};
struct Finish {
  Outcome outcome;
  TRAINRUN_RECORD("finish") { v("outcome", outcome); }
};

struct JobAction : std::variant<AddHost, DialHost, ReservePort, BeginWorld, PlanNewcomers, StartWorker,
                                SignalWorkers, Sweep, Announce, Dismiss, Inspect, AskForHosts, EndGeneration,
                                StopHost, AbandonHost, Arm, Disarm, Tell, Finish> {
  TRAINRUN_COMPILED_ONCE(JobAction)
};
using JobActions = std::vector<JobAction>;

}  // namespace trainrun::core
