// What can go wrong, as a value. Our own code throws nothing; a function that can fail returns Result<T>.
#pragma once

#include <cstdint>
#include <string>
#include <system_error>
#include <tl/expected.hpp>
#include <utility>

namespace trainrun {

// Each kind of failure has one exit code, see launcher/base/exit_code.h.
enum class Code : std::uint8_t {
  usage,        // the command line
  config,       // a file, an environment variable, a host list
  unreachable,  // a host cannot be reached, or answers like no sshd
  host_key,     // unknown or changed host key
  auth,         // no key or user was accepted
  bootstrap,    // logged in, but the agent could not be started there
  protocol,     // a peer said what it may not say
  not_found,    // a program or directory does not exist
  not_executable,
  lost,     // a peer or host went away
  timeout,  // a deadline passed
  refused,  // authentication of a rendezvous peer, a stale generation
  try_again,
  internal,
};

std::string to_string(Code code);

// `message` says what failed, where and why in one line without a final full stop; `hint` what to try (may be
// empty).
struct Error {
  Code code = Code::internal;
  std::string message;
  std::string hint{};

  friend bool operator==(const Error&, const Error&) = default;
};

template <class T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(Code code, std::string message, std::string hint = {}) {
  return tl::unexpected<Error>(Error{code, std::move(message), std::move(hint)});
}

// The system's words for an errno value, thread-safe.
inline std::string errno_text(int number) { return std::generic_category().message(number); }

}  // namespace trainrun
