#include "launcher/transport/ssh_login.h"

#include <fmt/format.h>
#include <unistd.h>

#include <mutex>

#include "launcher/base/strings.h"
#include "launcher/transport/key_agent.h"
#include "launcher/transport/key_file.h"
#include "launcher/transport/ssh_config_files.h"
#include "launcher/transport/ssh_words.h"

namespace trainrun::transport {

namespace {

// Elliptic curves first: newer libraries prefer post-quantum exchanges that cost 50 ms of CPU a host. P-256
// before curve25519, which is as strong: sshd computes the one with libcrypto's machine code and the other
// with plain C of its own, 1.6 ms of CPU more a login. A KexAlgorithms in ssh_config comes later and wins.
constexpr const char* key_exchange =
    "ecdh-sha2-nistp256,curve25519-sha256,curve25519-sha256@libssh.org,ecdh-sha2-nistp384,ecdh-sha2-nistp521,"
    "diffie-hellman-group18-sha512,diffie-hellman-group16-sha512,diffie-hellman-group14-sha256";

std::string option(const SshSession& session, ssh_options_e which) {
  char* text = nullptr;
  if (session.api.ssh_options_get(session.session, which, &text) != SSH_OK || text == nullptr) return {};
  std::string copy = text;
  session.api.ssh_string_free_char(text);
  return copy;
}

HostKey describe(const SshApi& api, ssh_key key) {
  HostKey described{api.ssh_key_type_to_char(api.ssh_key_type(key)), {}};
  unsigned char* hash = nullptr;
  std::size_t size = 0;
  if (api.ssh_get_publickey_hash(key, SSH_PUBLICKEY_HASH_SHA256, &hash, &size) == 0) {
    if (char* text = api.ssh_get_fingerprint_hash(SSH_PUBLICKEY_HASH_SHA256, hash, size)) {
      described.fingerprint = text;
      api.ssh_string_free_char(text);
    }
    api.ssh_clean_pubkey_hash(&hash);
  }
  return described;
}

std::string method_names(int methods) {
  std::vector<std::string> names;
  if ((methods & SSH_AUTH_METHOD_PUBLICKEY) != 0) names.emplace_back("publickey");
  if ((methods & SSH_AUTH_METHOD_PASSWORD) != 0) names.emplace_back("password");
  if ((methods & SSH_AUTH_METHOD_INTERACTIVE) != 0) names.emplace_back("keyboard-interactive");
  if ((methods & SSH_AUTH_METHOD_GSSAPI_MIC) != 0) names.emplace_back("gssapi-with-mic");
  if ((methods & SSH_AUTH_METHOD_HOSTBASED) != 0) names.emplace_back("hostbased");
  return names.empty() ? std::string() : list_names(names);
}

}  // namespace

Result<SshTarget> apply_options(SshSession& session, const SshOptions& options, const Host& host) {
  const auto& api = session.api;
  auto* const raw = session.session;
  const bool process_config = false;  // we read it, below: ssh_connect must not do it again
  api.ssh_options_set(raw, SSH_OPTIONS_PROCESS_CONFIG, &process_config);
  api.ssh_options_set(raw, SSH_OPTIONS_KEY_EXCHANGE, key_exchange);
  if (api.ssh_options_set(raw, SSH_OPTIONS_HOST, host.name.c_str()) != SSH_OK) {
    return fail(Code::config,
                fmt::format("{}: libssh does not take that name: {}", host.name, session.words()));
  }
  const auto* file = options.config_file.empty() ? nullptr : options.config_file.c_str();
  if (file != nullptr && access(file, R_OK) != 0) {
    return fail(Code::config, fmt::format("--ssh-config {}: {}", file, errno_text(errno)));
  }
  if (api.ssh_options_parse_config(raw, file) != SSH_OK) {
    return tl::unexpected(needs_openssh(
        fmt::format("{}: libssh cannot read {}: {}", host.name,
                    file == nullptr ? "~/.ssh/config or /etc/ssh/ssh_config" : file, session.words())));
  }
  if (const auto proxy = option(session, SSH_OPTIONS_PROXYCOMMAND); !proxy.empty() && proxy != "none") {
    return tl::unexpected(
        needs_openssh(fmt::format("{}: ssh_config reaches it through {}", host.name, describe_proxy(proxy))));
  }
  if (const auto address = option(session, SSH_OPTIONS_HOST); address != host.name)
    if (const auto line = misread_line(host.name, address, options.config_file))
      return tl::unexpected(needs_openssh(fmt::format(
          "{}: libssh reads {} of ssh_config as if it were about {}", host.name, quoted(*line), address)));
  // ssh_config must not switch the check of host keys off for us.
  const int strict = 1;
  api.ssh_options_set(raw, SSH_OPTIONS_STRICTHOSTKEYCHECK, &strict);

  unsigned int port = host.port != 0 ? host.port : options.port;
  if (port != 0) api.ssh_options_set(raw, SSH_OPTIONS_PORT, &port);
  if (!host.user.empty()) api.ssh_options_set(raw, SSH_OPTIONS_USER, host.user.c_str());
  if (option(session, SSH_OPTIONS_USER).empty())
    api.ssh_options_set(raw, SSH_OPTIONS_USER, nullptr);  // our own
  const auto& identity = host.identity.empty() ? options.identity : host.identity;
  if (!identity.empty()) api.ssh_options_set(raw, SSH_OPTIONS_IDENTITY, identity.c_str());

  SshTarget target{option(session, SSH_OPTIONS_HOST), 22, option(session, SSH_OPTIONS_USER)};
  if (api.ssh_options_get_port(raw, &port) == SSH_OK && port > 0 && port < 65536) {
    target.port = static_cast<std::uint16_t>(port);
  }
  if (!is_host_name(target.address) || !is_user_name(target.user)) {
    return fail(Code::config, fmt::format("{}: ssh_config makes it {} as user {}, which are not usable names",
                                          host.name, quoted(target.address), quoted(target.user)));
  }
  return target;
}

Result<void> trust_host(SshSession& session, const SshOptions& options, const SshTarget& target,
                        const DialLimit& time_limit) {
  const auto& api = session.api;
  const auto connected = session.drive(time_limit, SSH_AGAIN, "exchanging keys with its sshd",
                                       [&] { return api.ssh_connect(session.session); });
  if (!connected) return tl::unexpected(connected.error());
  if (*connected != SSH_OK) {
    const bool spoke = api.ssh_get_serverbanner(session.session) != nullptr;
    return fail(Code::try_again,
                fmt::format("{}: port {} {}: {}", session.host, target.port,
                            spoke ? "ended the key exchange" : "does not talk like an sshd", session.words()),
                fmt::format("ssh -v -p {} {} true", target.port, session.host));
  }
  ssh_key raw_key = nullptr;
  if (api.ssh_get_server_publickey(session.session, &raw_key) != SSH_OK) {
    return fail(Code::host_key, fmt::format("{}: it gave no host key: {}", session.host, session.words()));
  }
  const auto key = describe(api, raw_key);
  api.ssh_key_free(raw_key);
  const KnownHosts where{option(session, SSH_OPTIONS_KNOWNHOSTS), target.address, target.port};

  switch (api.ssh_session_is_known_server(session.session)) {
    case SSH_KNOWN_HOSTS_OK:
      return {};
    case SSH_KNOWN_HOSTS_CHANGED:
    case SSH_KNOWN_HOSTS_OTHER:  // known with a key of another type only: the mask of an impostor too
      return tl::unexpected(changed_host_key(session.host, where, key));
    case SSH_KNOWN_HOSTS_ERROR:
      return fail(
          Code::host_key,
          fmt::format("{}: the known_hosts files cannot be checked: {}", session.host, session.words()),
          "correct them, or use --transport openssh");
    case SSH_KNOWN_HOSTS_UNKNOWN:
    case SSH_KNOWN_HOSTS_NOT_FOUND:
      break;
  }
  if (!options.accept_new) return tl::unexpected(unknown_host_key(session.host, where, key));
  static std::mutex one_writer;  // the dials of a job add to one file
  const std::lock_guard lock(one_writer);
  if (api.ssh_session_update_known_hosts(session.session) != SSH_OK) {
    return fail(Code::host_key, fmt::format("{}: its host key cannot be added to {}: {}", session.host,
                                            where.file, session.words()));
  }
  return {};
}

namespace {

// One private key file, signed with at once: asking first whether the host would take it costs a round trip.
Result<int> offer_key(SshSession& session, const DialLimit& time_limit, const std::string& file,
                      std::vector<std::string>& tried) {
  const auto& api = session.api;
  ssh_key key = nullptr;
  const int read = api.ssh_pki_import_privkey_file(file.c_str(), nullptr, nullptr, nullptr, &key);
  if (read != SSH_OK) {
    tried.push_back(key_problem(file));
    return SSH_AUTH_DENIED;
  }
  tried.push_back(file);
  auto rc = session.drive(time_limit, SSH_AUTH_AGAIN, "logging in",
                          [&] { return api.ssh_userauth_publickey(session.session, nullptr, key); });
  api.ssh_key_free(key);
  return rc;
}

// libssh waits for an agent without end. One that IdentityAgent of ssh_config names is not known here.
void pass_over_dead_agent(SshSession& session, const DialLimit& time_limit) {
  const auto path = key_agent();
  if (path.empty()) return;
  const auto trouble = agent_problem(path, time_limit);
  if (trouble.why.empty()) return;
  session.remark = "the ssh agent is of no use: " + trouble.why;
  if (!trouble.hangs) return;
  session.api.ssh_options_set(session.session, SSH_OPTIONS_IDENTITY_AGENT, "/dev/null");
}

}  // namespace

// The first identity (-i, or ssh_config's, or the default one) is offered by ourselves; libssh then offers
// those of the agent and its further identities. "none" comes last: hosts that take it are rare.
Result<void> authenticate(SshSession& session, const Host& host, const SshTarget& target,
                          const DialLimit& time_limit) {
  const auto& api = session.api;
  std::vector<std::string> tried;
  Result<int> rc = SSH_AUTH_DENIED;
  if (const auto first = option(session, SSH_OPTIONS_IDENTITY);
      !first.empty() && !first.starts_with("pkcs11:")) {
    rc = offer_key(session, time_limit, first, tried);
  }
  if (rc && *rc == SSH_AUTH_DENIED) {
    pass_over_dead_agent(session, time_limit);
    tried.push_back(session.remark.empty() ? "the ssh agent and the other identities of ssh_config"
                                           : "the other identities of ssh_config; " + session.remark);
    rc = session.drive(time_limit, SSH_AUTH_AGAIN, "logging in",
                       [&] { return api.ssh_userauth_publickey_auto(session.session, nullptr, nullptr); });
  }
  if (rc && *rc == SSH_AUTH_DENIED) {
    rc = session.drive(time_limit, SSH_AUTH_AGAIN, "logging in",
                       [&] { return api.ssh_userauth_none(session.session, nullptr); });
  }
  if (!rc) return tl::unexpected(rc.error());
  if (*rc == SSH_AUTH_SUCCESS) return {};
  auto methods = method_names(api.ssh_userauth_list(session.session, nullptr));
  if (*rc == SSH_AUTH_PARTIAL) {
    return fail(Code::auth,
                fmt::format("{}: our key was accepted, but the host wants more: {}", host.name, methods),
                "use --transport openssh with a ControlMaster connection opened by hand");
  }
  auto error = nothing_accepted(host, target.user, target.port, tried, methods);
  if (*rc == SSH_AUTH_ERROR) error.message += fmt::format(": {}", session.words());
  return tl::unexpected(std::move(error));
}

}  // namespace trainrun::transport
