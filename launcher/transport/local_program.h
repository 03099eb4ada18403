// This host's agent as a program of its own: for a launcher that has threads. Of a fork only the calling
// thread goes on, and whatever lock another one held stays locked in it for ever.
#pragma once

#include "launcher/base/error.h"
#include "launcher/base/fd.h"

namespace trainrun::transport {

// No other thread is in this process now.
bool has_one_thread();
// Executes the embedded agent from memory, which needs no file and no directory; `link` becomes its end of
// the Link. Gives the pid of its watcher, our child.
Result<int> execute_agent(Fd link);

}  // namespace trainrun::transport
