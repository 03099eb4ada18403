// The files of ssh_config, read for what libssh reads in another way than ssh(1).
#pragma once

#include <optional>
#include <string>

namespace trainrun::transport {

// See SshConfigLines. `config_file`: --ssh-config; empty: the user's own and the system's. A file that cannot
// be read has no lines. Thread-safe.
std::optional<std::string> misread_line(const std::string& given, const std::string& address,
                                        const std::string& config_file);

}  // namespace trainrun::transport
