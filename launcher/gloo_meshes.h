// Where the ranks of a Horovod world accept each other, by host: what of theirs an agent may end (decision
// 0077). Pure.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "launcher/base/id.h"
#include "launcher/wire/messages.h"

namespace trainrun {

class GlooMeshes {
 public:
  // `value`: what a rank there has written for its peers. Above 65,536 addresses a host they are not kept.
  void keep(HostIndex host, const std::string& value);
  void host_gone(HostIndex host);
  // An order for each host. Each pair has one end that accepted: of those on hosts that are gone only the
  // other one can be ended. Nothing is kept.
  std::vector<std::pair<HostIndex, wire::BreakConnections>> take();

 private:
  std::map<HostIndex, std::vector<std::string>> by_host_;
  std::vector<std::string> lost_;
};

}  // namespace trainrun
