#include "launcher/base/end_by_signal.h"

#include <signal.h>
#include <sys/prctl.h>

#include <cstdio>

#include "launcher/base/exit_code.h"

namespace trainrun {

int end_by_signal(int number) {
  std::fflush(nullptr);
  ::prctl(PR_SET_DUMPABLE, 0);  // a core is no help here, and RLIMIT_CORE says nothing to a core handler
  ::signal(number, SIG_DFL);
  sigset_t it;
  sigemptyset(&it);
  sigaddset(&it, number);
  ::sigprocmask(SIG_UNBLOCK, &it, nullptr);
  ::raise(number);
  return exit_code_of_signal(number);
}

bool is_ignored(int number) {
  struct sigaction action {};
  return ::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace trainrun
