// While this lives, threads that start have all signals blocked: the program's are for its own threads.
#pragma once

#include <pthread.h>

#include <csignal>

namespace trainrun::comm {

class QuietThreads {
 public:
  QuietThreads() {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  QuietThreads(const QuietThreads&) = delete;
  QuietThreads& operator=(const QuietThreads&) = delete;
  ~QuietThreads() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace trainrun::comm
