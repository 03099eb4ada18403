// This host: an agent forked from the launcher, or executed where a fork would not be safe any more, without
// any network.
#pragma once

#include <memory>

#include "launcher/io/loop.h"
#include "launcher/transport/transport.h"

namespace trainrun::transport {

std::unique_ptr<Transport> make_local_transport(io::Loop& loop);

// Forks the agent that the first dial will ask for, so that it gets ready while the launcher does. What goes
// wrong is told by that dial; without one the agent goes when this process ends.
void fork_local_agent_ahead();

// Reaps the agents' watchers, which go a moment after their agents: whoever follows us as their parent may
// not, and a job that started ours would find them as something left behind. Blocks, but not for longer than
// `limit`.
void await_local_agents(Duration limit);

}  // namespace trainrun::transport
