// A TCP connection of our own to a host: resolved and connected within a deadline, abandoned when told to.
// For dial threads: these calls block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "launcher/base/error.h"
#include "launcher/base/fd.h"
#include "launcher/base/time.h"

namespace trainrun::transport {

// How long a dial may take, and the eventfd that ends it before: readable means that nobody wants it any
// more.
class DialLimit {
 public:
  DialLimit(Instant started, Duration within, int cancel_fd)
      : started_(started), deadline_(started + within), cancel_fd_(cancel_fd) {}

  enum class Wake { ready, too_late, cancelled };
  // Until one of `events` (poll's) on `fd`; an fd of -1 waits for the end of `at_most` (then ready).
  [[nodiscard]] Wake wait(int fd, short events, Duration at_most = Duration::max()) const;
  [[nodiscard]] Duration left() const { return deadline_ - std::chrono::steady_clock::now(); }
  [[nodiscard]] Duration spent() const { return std::chrono::steady_clock::now() - started_; }
  // The error for a wait that was not ready; `step` says what was waited for: "connecting".
  [[nodiscard]] Error error(Wake wake, const std::string& host, const std::string& step) const;

 private:
  Instant started_, deadline_;
  int cancel_fd_;
};

// All addresses of `address` (a name or a number) are tried in turn. The socket is non-blocking, with
// TCP_NODELAY. `host`: the user's name for it, for the errors.
Result<Fd> dial_socket(const std::string& host, const std::string& address, std::uint16_t port,
                       const DialLimit& time_limit);

// How long one address may take when `others` come after it: 5 s, as a dead one must not use up the time of
// those, and less when there is less. The last has all that is left.
Duration time_for_address(Duration left, std::size_t others);

// The kernel's delayed acknowledgements cost a login 40 ms twice, because sshd's Nagle waits for them; and
// the kernel forgets this setting, so it is to be called after each read.
void acknowledge_at_once(int fd);

}  // namespace trainrun::transport
