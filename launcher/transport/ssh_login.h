// The part of a bring-up that makes a connection trusted: the options of ssh_config, the host's key, our own
// key.
#pragma once

#include "launcher/transport/ssh_session.h"

namespace trainrun::transport {

struct SshTarget {
  std::string address;  // after HostName of ssh_config
  std::uint16_t port = 22;
  std::string user;
};

// Reads ssh's configuration into the session; the host's own settings come before the flags', these before
// the configuration's.
Result<SshTarget> apply_options(SshSession& session, const SshOptions& options, const Host& host);

// Key exchange; then the host's key against the known_hosts files, always. Code::try_again: the host hung up
// during the exchange, as an sshd does that has too many half-open connections (MaxStartups).
Result<void> trust_host(SshSession& session, const SshOptions& options, const SshTarget& target,
                        const DialLimit& time_limit);

// Never asks anybody for a password or passphrase.
Result<void> authenticate(SshSession& session, const Host& host, const SshTarget& target,
                          const DialLimit& time_limit);

}  // namespace trainrun::transport
