// This host: an agent forked from the launcher, without any network.
#pragma once

#include <memory>

#include "launcher/io/loop.h"
#include "launcher/transport/transport.h"

namespace trainrun::transport {

// To be dialled before any thread of the process exists: it forks.
std::unique_ptr<Transport> make_local_transport(io::Loop& loop);

}  // namespace trainrun::transport
