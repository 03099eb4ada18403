// A way to get an agent running on a host and a Link to it. An extension point.
//
// Whatever the transport, the launcher sees one fd: a stream whose first byte is the first byte of the
// agent's first frame (shell noise and the bootstrap's sentinel are gone). Closing that fd ends the agent,
// and so the host's workers.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "host-discovery/host.h"
#include "launcher/base/error.h"
#include "launcher/base/fd.h"
#include "launcher/base/time.h"

namespace trainrun::transport {

struct Dialled {
  Fd link;            // blocking; the caller sets it as it likes
  std::string noise;  // what the login shell printed before the agent spoke, for -v; at most 4 KiB
  // What came from the host's stderr until now, at most the last 4 KiB: why a link ended, when the agent or
  // ssh itself said so. May be empty. Thread-safe, and may be called after the Transport is gone.
  std::function<std::string()> last_words{};
  std::string how{};  // for -v: why this host was reached in another way than others; or nothing
};

// Called exactly once, on the thread that runs the loop, never from inside dial(); not at all if the
// Transport is destroyed first.
using DialDone = std::function<void(Result<Dialled>)>;

struct DialRequest {
  Host host;
  Duration within{};
  DialDone done;
};

class Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  // Abandons every dial still under way (their DialDone is not called) and releases every thread and child.
  virtual ~Transport() = default;

  // Begins to reach `host`; gives up `within` that time with an Error whose message names the host, the
  // reason in the system's words, and whose hint is the cure. Many dials may be under way at once; none waits
  // for another.
  virtual void dial(const Host& host, Duration within, DialDone done) = 0;

  // The same for hosts that are wanted at once, for a transport that starts all of their agents in one call,
  // as srun would. Each is answered by itself.
  virtual void dial_all(std::vector<DialRequest> batch) {
    for (auto& one : batch) dial(one.host, one.within, std::move(one.done));
  }
};

}  // namespace trainrun::transport
