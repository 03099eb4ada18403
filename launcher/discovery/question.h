// What each kind of discovery asks, and what its answer means. No effects: the command is run elsewhere.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "host-discovery/script.h"
#include "host-discovery/this_machine.h"
#include "launcher/base/error.h"
#include "launcher/core/job_spec.h"

namespace trainrun {

// All kinds are a command whose output is read: what blocks (a dead file server, a resolver) blocks a process
// that can be killed (decisions/0014).
struct Question {
  std::string asked;    // who is asked, for people: "the script './hosts.sh'"
  std::string command;  // for /bin/sh -c
  std::vector<std::string> arguments{};
  std::string file{};    // to be watched; empty: none
  std::string advice{};  // when it fails
  std::function<Result<hosts::Listing>(std::string_view output)> read;
};

// `environment` is the launcher's, NAME=VALUE each. `shown` is a script's command as people may see it: it
// may hold a credential. Errors: a source that can never be asked (a DNS name that is none, no Slurm job).
Result<Question> make_question(const DiscoverySpec& spec, const std::vector<std::string>& environment,
                               hosts::IsThisMachine is_this_machine, const std::string& shown);

// Lines of `getent ahosts` -> addresses, each once and sorted, since a resolver's order changes from answer
// to answer. IPv4 alone where there is any: a machine with both would be two hosts.
Result<std::vector<std::string>> read_addresses(std::string_view output);

}  // namespace trainrun
