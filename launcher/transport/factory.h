// The ssh transports by name, with the embedded agent: all that the launcher needs to know of them.
#pragma once

#include <memory>
#include <string>

#include "host-discovery/host.h"
#include "launcher/core/job_spec.h"
#include "launcher/io/loop.h"
#include "launcher/transport/transport.h"

namespace trainrun::transport {

// `loop` must outlive them; they are used and destroyed on its thread.
// `log`: what libssh logs goes to our stderr.
std::unique_ptr<Transport> make_ssh_transport(io::Loop& loop, const SshOptions& options, bool log);
// libssh, and OpenSSH's client for hosts that need it.
std::unique_ptr<Transport> make_either_ssh(io::Loop& loop, const SshOptions& options, bool log);
std::unique_ptr<Transport> make_openssh_transport(io::Loop& loop, const SshOptions& options);

// For --dry-run: what would be done to start the agent on `host`; the bootstrap's script is not spelled out.
std::string remote_command_for_display(const Host& host, const SshOptions& options, TransportKind kind);

}  // namespace trainrun::transport
