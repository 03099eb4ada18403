// The same machine: whether two hosts that were reached turned out to be one, by what their agents found
// there.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "launcher/base/id.h"

namespace trainrun::hosts {

// `place` is HostFacts::place: boot id, processes and network. An empty one tells nothing.
class Machines {
 public:
  // Notes that `host` is there, and nowhere else. Gives another host that is noted there, which stays noted.
  std::optional<HostIndex> note(HostIndex host, const std::string& place);
  // `host` is not there any more.
  void forget(HostIndex host);

 private:
  std::map<std::string, HostIndex> hosts_;   // the one noted there
  std::map<HostIndex, std::string> places_;  // where it is
};

}  // namespace trainrun::hosts
