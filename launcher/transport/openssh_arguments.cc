#include "launcher/transport/openssh_arguments.h"

namespace trainrun::transport {

// What the user's ssh_config may say for interactive use, and must not happen here: questions, forwardings, a
// terminal, escape characters, other commands, an unchecked host key.
std::vector<std::string> openssh_arguments(const Host& host, const SshOptions& options,
                                           const std::string& command) {
  std::vector<std::string> words{"ssh", "-T", "-x", "-a"};
  for (const auto* option :
       {"BatchMode=yes", "EscapeChar=none", "ClearAllForwardings=yes", "PermitLocalCommand=no",
        "RemoteCommand=none", "ServerAliveInterval=5", "ServerAliveCountMax=3"}) {
    words.insert(words.end(), {"-o", option});
  }
  words.insert(words.end(),
               {"-o", options.accept_new ? "StrictHostKeyChecking=accept-new" : "StrictHostKeyChecking=yes"});
  if (!options.config_file.empty()) words.insert(words.end(), {"-F", options.config_file});
  if (const auto port = host.port != 0 ? host.port : options.port; port != 0) {
    words.insert(words.end(), {"-p", std::to_string(port)});
  }
  if (const auto& identity = host.identity.empty() ? options.identity : host.identity; !identity.empty()) {
    words.insert(words.end(), {"-i", identity});
  }
  if (!host.user.empty()) words.insert(words.end(), {"-l", host.user});
  words.insert(words.end(), {"--", host.name, command});
  return words;
}

}  // namespace trainrun::transport
