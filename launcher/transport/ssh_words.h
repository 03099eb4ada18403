// What both ssh transports say and accept: names that may reach ssh at all, and failures in words with a
// cure. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "host-discovery/host.h"
#include "launcher/base/error.h"
#include "launcher/base/time.h"

namespace trainrun::transport {

// A host name or address and a user name that can mean nothing but that to ssh, its configuration's %h and
// %r, and any shell these end up in.
bool is_host_name(std::string_view name);
bool is_user_name(std::string_view name);
Result<void> check_names(const Host& host);

// "[name]:port", or "name" for port 22: how known_hosts files write a host.
std::string known_hosts_name(std::string_view host, std::uint16_t port);

struct HostKey {
  std::string type;         // "ssh-ed25519"
  std::string fingerprint;  // "SHA256:..."
};
struct KnownHosts {
  std::string file;  // the user's
  std::string host;  // the name under which ssh looks for it, after HostName of ssh_config
  std::uint16_t port = 22;
};
Error unknown_host_key(const std::string& host, const KnownHosts& where, const HostKey& key);
Error changed_host_key(const std::string& host, const KnownHosts& where, const HostKey& key);

// `tried`: what was offered, in words; `methods`: what the server would take ("publickey, password").
Error nothing_accepted(const Host& host, const std::string& user, std::uint16_t port,
                       const std::vector<std::string>& tried, const std::string& methods);

// What ssh's configuration asks for and libssh cannot do, found before anybody was called. `what`: "host:
// ...".
Error needs_openssh(std::string what);
// libssh's reading of ssh_config's ProxyJump or ProxyCommand, as it was written there: "a ProxyJump (jump)".
std::string describe_proxy(std::string_view command);
// libssh itself cannot be had. `what`: why.
Error no_libssh(std::string what);
// One of these two: another transport may do.
bool is_for_openssh(const Error& error);

// Could not be reached, in the words of errno or of getaddrinfo.
Error unreachable_host(const std::string& host, std::string_view address, std::uint16_t port,
                       std::string_view why);
constexpr std::string_view looking_up = "looking up its name";
Error silent_host(const std::string& host, std::string_view step, Duration after);

}  // namespace trainrun::transport
