// A host that waits to be dialled, or to be dialled again.
#pragma once

#include "host-discovery/host.h"
#include "launcher/base/time.h"
#include "launcher/transport/transport.h"

namespace trainrun::transport {

struct DialJob {
  Host host;
  Instant started;
  Duration within{};
  DialDone answer;       // may be called from any thread (Answers)
  int attempts = 0;      // so far
  Instant not_before{};  // of the next one

  [[nodiscard]] Instant deadline() const { return started + within; }
};

// An sshd with too many half-open connections hangs up (MaxStartups). Such a dial is tried again, up to some
// 10 s in all, after a pause that grows and varies by chance: the others that were refused come back too.
constexpr int dial_attempts = 8;
Duration pause_after(int attempts);
// The last word on a host that hung up on every attempt.
Error gave_up(Error error, int attempts);

}  // namespace trainrun::transport
