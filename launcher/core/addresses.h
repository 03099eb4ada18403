// Under which address each host is reached by the others. Pure: from what the agents report.
#pragma once

#include <map>
#include <string>

#include "launcher/base/error.h"
#include "launcher/base/id.h"
#include "launcher/core/job_spec.h"
#include "launcher/wire/facts.h"

namespace trainrun::core {

using FactsByHost = std::map<HostIndex, const wire::HostFacts*>;  // hosts that take part

// A world on one host may have members on others later, and who is there keeps the addresses that it has.
bool may_spread(const JobSpec& job);

// A host alone of a job that does not spread: 127.0.0.1. With --network-interface: its address there. A host
// that was reached over ssh: the address at which its sshd was reached. This host: the address from which the
// first other host was reached. Code::config when the named interface is not there.
Result<std::string> address_of(HostIndex host, const FactsByHost& facts, const JobSpec& job);
// The same of all hosts, each looked at once. None for one whose interface is not there.
std::map<HostIndex, std::string> addresses_of(const FactsByHost& facts, const JobSpec& job);

}  // namespace trainrun::core
