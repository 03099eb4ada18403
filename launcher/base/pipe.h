// A pipe, or two sockets, for whoever must hand on the system's own reason why it cannot be had.
#pragma once

#include "launcher/base/fd.h"

namespace trainrun {

int open_pipe(FdPair& ends);         // close-on-exec; 0 or an errno
int open_socket_pair(FdPair& ends);  // stream, close-on-exec; 0 or an errno

}  // namespace trainrun
