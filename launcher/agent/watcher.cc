#include "launcher/agent/watcher.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "launcher/agent/process_tree.h"
#include "launcher/base/check.h"
#include "launcher/base/fd.h"

namespace trainrun::agent {

struct Legacy::Page {
  char job_directory[1024];
};

Legacy::Legacy() {
  void* page = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  TRAINRUN_CHECK(page != MAP_FAILED);
  page_ = static_cast<Page*>(page);
}

void Legacy::set_job_directory(const std::string& path) {
  if (path.size() < sizeof page_->job_directory)
    std::memcpy(page_->job_directory, path.c_str(), path.size() + 1);
}

std::string Legacy::job_directory() const {
  return {page_->job_directory, ::strnlen(page_->job_directory, sizeof page_->job_directory)};
}

namespace {

void close_all_above_two_but(int a, int b) {
  unsigned from = 3;
  for (const int keep : {std::min(a, b), std::max(a, b)}) {
    if (keep < 3) continue;
    const auto number = static_cast<unsigned>(keep);
    if (number > from) ::syscall(SYS_close_range, from, number - 1, 0U);
    from = std::max(from, number + 1);
  }
  ::syscall(SYS_close_range, from, ~0U, 0U);
}

void stdio_to_null() {
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  for (int fd = 0; fd < 3 && null; ++fd) ::dup2(null.get(), fd);
}

// Ends what is left; each pass waits for a child's end, and the passes are bounded should one be stuck in the
// kernel.
void end_all() {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  for (int pass = 0; pass < 50 && !no_children_left(); ++pass) {
    signal_descendants(SIGKILL);
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (no_children_left()) return;
    const timespec patience{0, 100'000'000};
    ::sigtimedwait(&child, nullptr, &patience);
  }
}

}  // namespace

int watch_over(const std::function<int(Legacy&)>& agent, int keep_first, int keep_second) {
  Legacy legacy;
  ::setsid();  // the terminal's ^C and the end of a login are the launcher's business, not ours
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_NAME, "trainrun-watch");
  sigset_t signals, before;
  sigemptyset(&signals);
  for (const int number : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2})
    sigaddset(&signals, number);
  ::sigprocmask(SIG_BLOCK, &signals, &before);

  const pid_t self = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return 70;
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // without a watcher the agent ends its workers and goes
    if (::getppid() != self) ::_exit(70);
    ::setsid();
    ::prctl(PR_SET_NAME, "trainrun-agent");
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    close_all_above_two_but(keep_first, keep_second);
    ::_exit(agent(legacy));
  }
  stdio_to_null();
  close_all_above_two_but(-1, -1);
  [[maybe_unused]] const int moved = ::chdir("/");  // hold no file system busy

  int status = 0;
  for (;;) {
    siginfo_t info{};
    if (::sigwaitinfo(&signals, &info) < 0) continue;
    if (info.si_signo != SIGCHLD) {
      ::kill(pid, info.si_signo);
      continue;
    }
    if (::waitpid(pid, &status, WNOHANG) == pid) break;
  }
  end_all();
  remove_tree(legacy.job_directory());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 70;
}

}  // namespace trainrun::agent
