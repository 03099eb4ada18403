#include "launcher/agent/worker_files.h"

#include <fcntl.h>

#include <cerrno>

#include "launcher/agent/pty.h"
#include "launcher/base/pipe.h"

namespace trainrun::agent {

int open_worker_files(const wire::Start& order, WorkerFiles& files) {
  // A host without terminals, or whose terminals are all taken, has pipes.
  const bool has_pty = order.pty && open_pty(files.out) == 0;
  for (auto* pipe : {&files.out, &files.err}) {
    if (pipe == &files.out && has_pty) continue;
    if (const int error = open_pipe(*pipe); error != 0) return error;
  }
  switch (order.stdin_mode) {
    case wire::StdinMode::inherit:
      files.inherits_stdin = true;
      break;
    case wire::StdinMode::null:
      files.stdin_read = Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
      if (!files.stdin_read) return errno;
      break;
    case wire::StdinMode::relay: {
      FdPair pipe;
      if (const int error = open_pipe(pipe); error != 0) return error;
      files.stdin_read = std::move(pipe.first);
      files.stdin_write = std::move(pipe.second);
      break;
    }
  }
  return order.pmi ? open_socket_pair(files.pmi) : 0;
}

}  // namespace trainrun::agent
