// MASTER_PORT of each world: which agent is asked to hold a port, and which answer is for which world. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/base/error.h"
#include "launcher/base/id.h"
#include "launcher/core/job_action.h"
#include "launcher/core/job_spec.h"
#include "launcher/wire/messages.h"

namespace trainrun::core {

// The doors that an agent opens with its greeting, the first of them for our own rendezvous. One for Horovod
// may follow, where a program is found to need it.
std::vector<wire::DoorKind> doors_of(const JobSpec& job);
// Where doors other than that of PyTorch's store listen, which are on loopback alone. They leave
// MASTER_PORT's to rank 0: a range that would hold no other port beside them is its own, and theirs are of
// the kernel's choice.
PortRange ports_of_doors(const JobSpec& job);

class MasterPort {
 public:
  explicit MasterPort(const JobSpec& job);

  // An agent may be asked before the brain wants the port: mostly the answer is here by then.
  wire::HoldPort ask(HostIndex host, Generation generation);
  // The brain waits for it. Returns what to ask the host, if it has not been asked. `world_has_begun`: a
  // named port is then used as it is, since survivors may have it.
  std::optional<wire::HoldPort> want(const ReservePort& order, bool world_has_begun);
  // The agent that was asked there is gone, and so is what it held.
  void forget(HostIndex host);
  // Agents answer in the order in which they were asked, also for generations that are over.
  void answered(HostIndex host, const wire::PortHeld& answer);

  struct Reserved {
    Generation generation;
    Result<std::uint16_t> port;
  };
  // What the brain waits for, once it is known; once. `hosts`: the job's, for their names.
  std::optional<Reserved> take(const HostSet& hosts);

 private:
  struct Held {
    ReservePort for_whom;
    wire::PortHeld answer;
  };

  const std::uint16_t named_;  // --master-port, or 0
  const PortRange range_;
  const bool own_store_;  // it has its ports already
  std::map<HostIndex, std::deque<Generation>> asked_;
  std::optional<ReservePort> wanted_;
  bool as_named_ = false;     // nobody is asked for what is wanted
  std::optional<Held> held_;  // the latest answer
};

}  // namespace trainrun::core
