// A worker's stdout that looks like a terminal: the C library prints line by line to one, and by blocks of
// 4 KiB to a pipe. It is raw, so what is printed arrives as it is.
#pragma once

#include "launcher/base/fd.h"

namespace trainrun::agent {

// `.first` reads what was written to `.second`, as of a pipe; at its end a read fails with EIO. Nobody gets a
// controlling terminal by it. An error number; 0: open.
int open_pty(FdPair& pty);

}  // namespace trainrun::agent
