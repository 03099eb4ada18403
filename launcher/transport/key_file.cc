#include "launcher/transport/key_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "launcher/base/fd.h"
#include "launcher/base/strings.h"

namespace trainrun::transport {
namespace {

constexpr std::size_t largest_key = 1u << 20;

// In base64: "openssh-key-v1", 0; after it the cipher, here with the length of its name, "none".
constexpr std::string_view openssh_key = "b3BlbnNzaC1rZXktdjEA";
constexpr std::string_view openssh_key_plain = "b3BlbnNzaC1rZXktdjEAAAAABG5vbm";

bool contains(std::string_view text, std::string_view what) {
  return text.find(what) != std::string_view::npos;
}

// errno's words, or nothing: it can be read.
std::string unreadable(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return errno_text(errno);
  if (S_ISDIR(info.st_mode)) return errno_text(EISDIR);
  return ::access(path.c_str(), R_OK) == 0 ? std::string() : errno_text(errno);
}

}  // namespace

KeyKind key_kind(std::string_view text) {
  text = trim(text);
  for (const std::string_view type : {"ssh-", "ecdsa-", "sk-ssh-", "sk-ecdsa-", "---- BEGIN SSH2 PUBLIC"})
    if (text.starts_with(type)) return KeyKind::public_half;
  const auto first = text.substr(0, text.find('\n'));
  if (!first.starts_with("-----BEGIN ") || !contains(first, "PRIVATE KEY-----")) return KeyKind::none;
  if (!contains(text, "\n-----END ")) return KeyKind::cut_off;
  if (contains(first, "ENCRYPTED") || contains(text, "Proc-Type: 4,ENCRYPTED"))
    return KeyKind::has_passphrase;
  if (!contains(first, "OPENSSH")) return KeyKind::plain;
  const auto body = trim(text.substr(first.size()));
  if (!body.starts_with(openssh_key)) return KeyKind::none;
  return body.starts_with(openssh_key_plain) ? KeyKind::plain : KeyKind::has_passphrase;
}

Result<void> check_key_file(const std::string& path, bool can_ask_agent) {
  const auto name = quoted(path, 300);
  const auto bad = [&](const std::string& why, std::string hint) -> Result<void> {
    return fail(Code::config, fmt::format("key {} {}", name, why), std::move(hint));
  };
  if (const auto why = unreadable(path); !why.empty()) {
    return bad("cannot be read: " + why, "ls -l ~/.ssh shows the keys that there are, and whose they are");
  }
  const auto kind = key_kind(read_file(path, largest_key).value_or(""));
  switch (kind) {
    case KeyKind::none:
      return bad("holds no private key", fmt::format("see what it is: ssh-keygen -lf {}", shell_quote(path)));
    case KeyKind::cut_off:
      return bad("is cut off: it has no END line", "copy it once more");
    case KeyKind::public_half:
      if (can_ask_agent) return {};
      return bad("is the public half of a key", "name the private one, mostly without .pub");
    case KeyKind::has_passphrase:
      if (can_ask_agent) break;
      return bad("has a passphrase, for which nobody is asked here, and there is no ssh agent",
                 fmt::format("eval $(ssh-agent) && ssh-add {}", shell_quote(path)));
    case KeyKind::plain:
      break;
  }
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && info.st_uid == ::geteuid() && (info.st_mode & 077) != 0) {
    return bad(
        fmt::format("is readable by others (mode {:04o}): ssh refuses such a key", info.st_mode & 07777),
        fmt::format("chmod 600 {}", shell_quote(path)));
  }
  return {};
}

std::string key_problem(const std::string& path) {
  if (const auto why = unreadable(path); !why.empty()) return fmt::format("{}: {}", path, why);
  switch (key_kind(read_file(path, largest_key).value_or(""))) {
    case KeyKind::has_passphrase:
      return path + ": has a passphrase, for which nobody is asked here (ssh-add it)";
    case KeyKind::public_half:
      return path + ": is a public key";
    case KeyKind::none:
    case KeyKind::cut_off:
    case KeyKind::plain:
      break;
  }
  return path + ": is broken, or of a kind that libssh does not know";
}

}  // namespace trainrun::transport
