#include "tests/sim/describe.h"

#include <fmt/format.h>

#include <array>

namespace trainrun::sim {
namespace {

using namespace core;

const char* name_of(Deadline deadline) {
  switch (deadline) {
    case Deadline::start:
      return "start";
    case Deadline::job:
      return "job";
    case Deadline::grace:
      return "grace";
    case Deadline::kill:
      return "kill";
    case Deadline::stop:
      return "stop";
    case Deadline::sweep:
      return "sweep";
    case Deadline::backoff:
      return "backoff";
    case Deadline::hosts:
      return "hosts";
    case Deadline::settle:
      return "settle";
    case Deadline::world:
      return "world";
    case Deadline::join:
      return "join";
    case Deadline::leave:
      return "leave";
    case Deadline::inspect:
      return "inspect";
    case Deadline::notice:
      return "notice";
    case Deadline::cause:
      return "cause";
    case Deadline::steady:
      return "steady";
  }
  return "";
}

std::string list(const std::vector<WorkerId>& workers) {
  std::string out;
  for (const auto worker : workers) out += fmt::format(" w{}", worker.value);
  return out;
}

std::string list(const std::vector<Host>& hosts) {
  std::string out;
  for (const auto& host : hosts) out += fmt::format(" {}:{}", host.name, host.slots);
  return out;
}

struct OfEvent {
  std::string operator()(const Begin&) const { return "begin"; }
  std::string operator()(const HostReady& it) const { return fmt::format("host {} ready", it.host.value); }
  std::string operator()(const HostFailed& it) const {
    return fmt::format("host {} failed: {}", it.host.value, it.error.message);
  }
  std::string operator()(const HostLost& it) const {
    return fmt::format("host {} lost: {}", it.host.value, it.reason);
  }
  std::string operator()(const PortReserved& it) const {
    return fmt::format("port g{}", it.generation.value);
  }
  std::string operator()(const PortRefused& it) const {
    return fmt::format("port g{} refused", it.generation.value);
  }
  std::string operator()(const WorkerStarted& it) const {
    return fmt::format("w{} started", it.worker.value);
  }
  std::string operator()(const WorkerNotStarted& it) const {
    return fmt::format("w{} not started", it.worker.value);
  }
  std::string operator()(const WorkerExited& it) const {
    return fmt::format("w{} {}", it.worker.value, it.status.describe());
  }
  std::string operator()(const WorkerFinished& it) const {
    return fmt::format("w{} finished{}", it.worker.value, it.lost_peer ? " (lost a peer)" : "");
  }
  std::string operator()(const WorkerAborted& it) const {
    return fmt::format("w{} aborted with {}", it.worker.value, it.code);
  }
  std::string operator()(const ExchangeBroken& it) const {
    return fmt::format("g{} exchange broken: {}", it.generation.value, it.reason);
  }
  std::string operator()(const HostStopped& it) const {
    return fmt::format("host {} stopped", it.host.value);
  }
  std::string operator()(const HostSwept& it) const {
    return fmt::format("host {} swept g{}", it.host.value, it.generation.value);
  }
  std::string operator()(const HostLeaving& it) const { return fmt::format("host {} leaves", it.host.value); }
  std::string operator()(const DiscoveryProblem& it) const { return "discovery: " + it.what; }
  std::string operator()(const HostsDiscovered& it) const { return "hosts:" + list(it.hosts); }
  std::string operator()(const MemberJoined& it) const {
    return fmt::format("g{} rank {} joined", it.generation.value, it.rank.value);
  }
  std::string operator()(const WorldJoined& it) const {
    return fmt::format("g{} met{}", it.generation.value, it.elastic ? ", elastic" : "");
  }
  std::string operator()(const WorldBroken& it) const {
    return fmt::format("g{} broken: {}, {} culprits", it.generation.value, it.reason, it.culprits.size());
  }
  std::string operator()(const MemberWaits& it) const {
    return fmt::format("w{} waits after g{}", it.worker.value, it.generation.value);
  }
  std::string operator()(const WorldProgressed& it) const {
    return fmt::format("g{} progressed", it.generation.value);
  }
  std::string operator()(const WorldSilent&) const { return "silence"; }
  std::string operator()(const WorkerInspected& it) const {
    return fmt::format("w{} inspected{}", it.worker.value, it.stopped ? ": stopped" : "");
  }
  std::string operator()(const InspectionDone& it) const {
    return fmt::format("host {} inspected", it.host.value);
  }
  std::string operator()(const RemoveHost& it) const { return "ctl remove " + it.name; }
  std::string operator()(const AddHosts& it) const { return "ctl add" + list(it.hosts); }
  std::string operator()(const RestartWorld&) const { return "ctl restart"; }
  std::string operator()(const RestartWorker& it) const {
    return fmt::format("ctl restart rank {}", it.rank.value);
  }
  std::string operator()(const StopWorker& it) const {
    return fmt::format("ctl stop rank {}", it.rank.value);
  }
  std::string operator()(const UserSignal& it) const { return fmt::format("signal {}", it.number); }
  std::string operator()(const OutputClosed&) const { return "output closed"; }
  std::string operator()(const DeadlinePassed& it) const {
    return fmt::format("deadline {}", name_of(it.deadline));
  }
};

struct OfAction {
  std::string operator()(const AddHost& it) const {
    return fmt::format("add host {} {}", it.host.value, it.as.name);
  }
  std::string operator()(const DialHost& it) const { return fmt::format("dial {}", it.host.value); }
  std::string operator()(const ReservePort& it) const {
    return fmt::format("reserve port g{} on {}", it.generation.value, it.host.value);
  }
  std::string operator()(const BeginWorld& it) const {
    std::string out = fmt::format("begin g{}, {} restarts:", it.placement.generation.value, it.restarts);
    for (std::size_t i = 0; i < it.workers.size(); ++i)
      out += fmt::format(" w{}@{}.{}", it.workers[i].value, it.placement.seats[i].host.value,
                         it.placement.seats[i].slot);
    return out;
  }
  std::string operator()(const StartWorker& it) const {
    return fmt::format("start w{} g{} rank {}", it.worker.value, it.generation.value, it.rank.value);
  }
  std::string operator()(const SignalWorkers& it) const {
    return fmt::format("signal {}{} to{}", it.number, it.deep ? " deep" : "",
                       it.workers.empty() ? " all" : list(it.workers));
  }
  std::string operator()(const Sweep& it) const {
    return fmt::format("sweep {}{}{}", it.host.value, it.generation ? " for an answer" : "",
                       list(it.workers));
  }
  std::string operator()(const Announce& it) const {
    return fmt::format("announce g{}{}{}, leaving:{}", it.generation.value, it.hosts_come ? " come" : "",
                       it.hosts_leave ? " leave" : "", list(it.leaving));
  }
  std::string operator()(const Dismiss& it) const { return fmt::format("dismiss w{}", it.worker.value); }
  std::string operator()(const Inspect&) const { return "inspect"; }
  std::string operator()(const AskForHosts&) const { return "ask for hosts"; }
  std::string operator()(const EndGeneration& it) const {
    return fmt::format("end g{}: {}", it.generation.value, it.reason);
  }
  std::string operator()(const StopHost& it) const { return fmt::format("stop host {}", it.host.value); }
  std::string operator()(const AbandonHost& it) const {
    return fmt::format("abandon host {}", it.host.value);
  }
  std::string operator()(const Arm& it) const { return fmt::format("arm {}", name_of(it.deadline)); }
  std::string operator()(const Disarm& it) const { return fmt::format("disarm {}", name_of(it.deadline)); }
  std::string operator()(const Say& it) const { return "\"" + it.text + "\""; }
  std::string operator()(const Finish& it) const {
    return fmt::format("finish: {}, exit {}", sim::name_of(it.outcome.kind), it.outcome.exit_code);
  }
};

}  // namespace

std::string describe(const JobEvent& event) { return std::visit(OfEvent{}, event); }
std::string describe(const JobAction& action) { return std::visit(OfAction{}, action); }

std::string name_of(Outcome::Kind kind) {
  constexpr std::array names{"success",     "worker failed", "host lost", "hosts failed", "port refused",
                             "user signal", "output closed", "timed out", "hung",         "no hosts"};
  return names[static_cast<std::size_t>(kind)];
}

}  // namespace trainrun::sim
