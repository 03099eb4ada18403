// Writes to what is gone fail instead of ending the tests: Gloo's, where no world ignores the signal, and
// orders to workers.
#pragma once

#include <csignal>

namespace trainrun {

struct NoSigpipe {
  NoSigpipe() : before(std::signal(SIGPIPE, SIG_IGN)) {}
  ~NoSigpipe() { std::signal(SIGPIPE, before); }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;
  void (*before)(int);
};

}  // namespace trainrun
