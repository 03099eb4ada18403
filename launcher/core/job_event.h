// Everything that can happen to a job. The body turns the world into these; the brain sees nothing else.
#pragma once

#include <string>
#include <variant>

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
};
struct UserSignal {
  int number = 0;
};
struct OutputClosed {};  // nobody reads our stdout any more
enum class Deadline : std::uint8_t { start, job, grace, kill, stop };
struct DeadlinePassed {
  Deadline deadline = Deadline::start;
};

using JobEvent = std::variant<Begin, HostReady, HostFailed, HostLost, PortReserved, PortRefused,
                              WorkerStarted, WorkerNotStarted, WorkerExited, WorkerFinished, HostStopped,
                              UserSignal, OutputClosed, DeadlinePassed>;

}  // namespace trainrun::core
