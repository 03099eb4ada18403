// A file that is to hold a private key, as far as it can be judged without a passphrase.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "launcher/base/error.h"

namespace trainrun::transport {

enum class KeyKind : std::uint8_t { plain, has_passphrase, public_half, cut_off, none };

// Pure: `text` is the file's.
KeyKind key_kind(std::string_view text);

// Why no login can succeed with this file, which the system calls `path`: it cannot be read, holds no key, or
// others may read it (ssh refuses such keys too). `can_ask_agent`: an ssh agent may hold what the file does
// not give. The message begins with "key 'PATH'".
Result<void> check_key_file(const std::string& path, bool can_ask_agent);

// Why libssh could not read it, in words that begin with its name.
std::string key_problem(const std::string& path);

}  // namespace trainrun::transport
