// Everything that the brain can order. The body performs these in the order given and decides nothing.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "launcher/core/job_event.h"
#include "launcher/core/outcome.h"

namespace trainrun::core {

// Make sure that rank 0's host has a port for the generation's MASTER_PORT; answered by PortReserved or
// PortRefused.
struct ReservePort {
  Generation generation;
  HostIndex host;
};
struct StartWorker {
  WorkerId worker;
  Generation generation;
  Rank rank;
};
// To every worker on every ready host; `deep` reaches daemons and grandchildren too.
struct SignalWorkers {
  int number = 0;
  bool deep = false;
};
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

using JobAction = std::variant<ReservePort, StartWorker, SignalWorkers, EndGeneration, StopHost, AbandonHost,
                               Arm, Disarm, Say, Finish>;
using JobActions = std::vector<JobAction>;

}  // namespace trainrun::core
