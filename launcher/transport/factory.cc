#include "launcher/transport/factory.h"

#include <fmt/format.h>

#include "launcher/base/strings.h"
#include "launcher/transport/either_ssh.h"
#include "launcher/transport/openssh.h"
#include "launcher/transport/openssh_arguments.h"
#include "launcher/transport/ssh_pool.h"

namespace trainrun::transport {

std::unique_ptr<Transport> make_ssh_transport(io::Loop& loop, const SshOptions& options, bool log) {
  return std::make_unique<SshTransport>(loop, options, agent_image(), installed_agents(agent_image()), log);
}

std::unique_ptr<Transport> make_openssh_transport(io::Loop& loop, const SshOptions& options) {
  return std::make_unique<OpensshTransport>(loop, options, agent_image(), installed_agents(agent_image()));
}

std::unique_ptr<Transport> make_either_ssh(io::Loop& loop, const SshOptions& options, bool log) {
  return std::make_unique<EitherSsh>(make_ssh_transport(loop, options, log),
                                     [&loop, options] { return make_openssh_transport(loop, options); });
}

std::string remote_command_for_display(const Host& host, const SshOptions& options, TransportKind kind) {
  const auto directory = options.agent_dir.empty() ? std::string("~/.cache/trainrun") : options.agent_dir;
  const auto agent =
      fmt::format("{}/agent-{}... --greet NONCE SIZE", directory, agent_image().sha256.substr(0, 12));
  if (kind == TransportKind::local) return agent;
  if (kind == TransportKind::openssh) {
    std::string line;
    for (const auto& word : openssh_arguments(host, options, "exec /bin/sh -c '... exec " + agent + "'")) {
      line += (line.empty() ? "" : " ") + shell_quote(word);
    }
    return line;
  }
  std::string line = "ssh";  // what a person would type to get the same
  if (!options.config_file.empty()) line += " -F " + shell_quote(options.config_file);
  if (const auto port = host.port != 0 ? host.port : options.port; port != 0)
    line += fmt::format(" -p {}", port);
  if (const auto& key = host.identity.empty() ? options.identity : host.identity; !key.empty()) {
    line += " -i " + shell_quote(key);
  }
  return fmt::format("{} {}{} \"exec /bin/sh -c '... exec {}'\"  (by libssh{})", line,
                     host.user.empty() ? std::string() : host.user + "@", host.name, agent,
                     kind == TransportKind::automatic ? " or OpenSSH" : "");
}

}  // namespace trainrun::transport
