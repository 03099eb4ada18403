// What a worker's standard streams and its PMI socket are made of, before it is started.
#pragma once

#include "launcher/base/fd.h"
#include "launcher/wire/messages.h"

namespace trainrun::agent {

struct WorkerFiles {
  FdPair out, err, pmi;        // second: the worker's end
  Fd stdin_read, stdin_write;  // of a relay, or read alone: /dev/null
  bool inherits_stdin = false;

  [[nodiscard]] int stdin_fd() const { return inherits_stdin ? 0 : stdin_read.get(); }
};

// 0, or an errno.
int open_worker_files(const wire::Start& order, WorkerFiles& files);

}  // namespace trainrun::agent
