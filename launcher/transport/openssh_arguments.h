// The command line of OpenSSH's client for one host. Pure.
#pragma once

#include <string>
#include <vector>

#include "host-discovery/host.h"
#include "launcher/core/job_spec.h"

namespace trainrun::transport {

// `command` is one argument: what the host's login shell gets. Holds no secret, as any process may read it.
std::vector<std::string> openssh_arguments(const Host& host, const SshOptions& options,
                                           const std::string& command);

}  // namespace trainrun::transport
