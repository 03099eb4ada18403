// This host: an agent forked from the launcher, without any network.
#pragma once

#include <memory>

#include "launcher/io/loop.h"
#include "launcher/transport/transport.h"

namespace trainrun::transport {

// To be dialled before any thread of the process exists: it forks.
std::unique_ptr<Transport> make_local_transport(io::Loop& loop);

// Forks the agent that the first dial will ask for, so that it gets ready while the launcher does. What goes
// wrong is told by that dial; without one the agent goes when this process ends.
void fork_local_agent_ahead();

}  // namespace trainrun::transport
