#include "launcher/agent/watcher.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>

#include "launcher/agent/job_directory.h"
#include "launcher/agent/process_tree.h"
#include "launcher/base/check.h"
#include "launcher/base/error.h"
#include "launcher/base/exit_code.h"
#include "launcher/base/fd.h"
#include "launcher/wire/frame.h"
#include "launcher/wire/messages.h"

namespace trainrun::agent {

struct Handover::Page {
  char job_directory[PATH_MAX] = {};
  std::atomic<std::int64_t> host_timeout_ns{Duration(seconds(10)).count()};
  std::atomic<std::int64_t> last_life_ns{std::chrono::steady_clock::now().time_since_epoch().count()};
};

Handover::Handover() {
  void* page = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  TRAINRUN_CHECK(page != MAP_FAILED);
  page_ = new (page) Page;
}

void Handover::set_job_directory(const std::string& path) {
  TRAINRUN_CHECK(path.size() < sizeof page_->job_directory);  // the kernel has none that is longer
  std::memcpy(page_->job_directory, path.c_str(), path.size() + 1);
}

std::string Handover::job_directory() const {
  return {page_->job_directory, ::strnlen(page_->job_directory, sizeof page_->job_directory)};
}

void Handover::set_host_timeout(Duration timeout) { page_->host_timeout_ns = timeout.count(); }
Duration Handover::host_timeout() const { return Duration(page_->host_timeout_ns); }

void Handover::show_life() {
  page_->last_life_ns = std::chrono::steady_clock::now().time_since_epoch().count();
}
Instant Handover::last_life() const { return Instant(Duration(page_->last_life_ns)); }

namespace {

using std::chrono::steady_clock;

// The launcher gives a silent host up after the time-out; it may then take the agent's place elsewhere.
constexpr Duration longer_than_launcher = seconds(2);

// Waits for one of `signals`, until `due`; 0 when that has passed.
int wait_for_signal(const sigset_t& signals, Instant due) {
  for (;;) {
    const auto ns = std::max(Duration::zero(), Duration(due - steady_clock::now())).count();
    const timespec left{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
    siginfo_t info{};
    if (::sigtimedwait(&signals, &info, &left) > 0) return info.si_signo;
    if (errno == EAGAIN) return 0;
  }
}

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
    const timespec time_limit{0, 100'000'000};
    ::sigtimedwait(&child, nullptr, &time_limit);
  }
}

// Until the agent is dead, which it is made when it shows no life for too long; gives its wait status.
int outlive(pid_t agent, const sigset_t& signals, const Handover& handover) {
  Instant excused{};  // what lies before is not held against it
  for (;;) {
    const auto limit = handover.host_timeout() + longer_than_launcher;
    const auto due = std::max(handover.last_life(), excused) + limit;
    const int number = wait_for_signal(signals, due);
    const auto now = steady_clock::now();
    // We stood still ourselves, as when a batch system stops or freezes all of a job: it lets the agent go on
    // as well, perhaps a little later than us.
    const bool stood_still = number == SIGCONT || now - due > seconds(1);
    if (stood_still) {
      excused = now;
    } else if (number == 0 && handover.last_life() + limit <= now) {
      // All of them: an agent that hangs in the kernel does not even die of this, and its workers must not
      // wait for that.
      signal_descendants(SIGKILL);
      excused = now;
    } else if (number != 0 && number != SIGCHLD) {
      ::kill(agent, number);
    }
    // One SIGCHLD may stand for several changes.
    int status = 0;
    while (::waitpid(agent, &status, WNOHANG) == agent)
      if (WIFEXITED(status) || WIFSIGNALED(status)) return status;
  }
}

}  // namespace

int watch_over(const std::function<int(Handover&)>& agent, int keep_first, int keep_second) {
  Handover handover;
  ::signal(SIGCHLD, SIG_DFL);  // whoever ignored it for us would cost us the news of the agent's end
  ::setsid();  // the terminal's ^C and the end of a login are the launcher's business, not ours
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t signals, before;
  sigemptyset(&signals);
  for (const int number : {SIGCHLD, SIGCONT, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2})
    sigaddset(&signals, number);
  ::sigprocmask(SIG_BLOCK, &signals, &before);

  const pid_t self = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) {
    [[maybe_unused]] const auto sent =
        write_all(keep_second >= 0 ? keep_second : keep_first, wire::to_frame(wire::NoAgent{errno}));
    return to_int(ExitCode::internal);
  }
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // without a watcher the agent ends its workers and goes
    if (::getppid() != self) ::_exit(to_int(ExitCode::internal));
    ::setsid();
    ::prctl(PR_SET_NAME, "trainrun-agent");
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    close_all_above_two_but(keep_first, keep_second);
    ::_exit(agent(handover));
  }
  // Only now, beside the agent, for which the launcher waits.
  ::prctl(PR_SET_NAME, watcher_name);
  stdio_to_null();
  close_all_above_two_but(-1, -1);
  [[maybe_unused]] const int moved = ::chdir("/");  // hold no file system busy

  const int status = outlive(pid, signals, handover);
  end_all();
  remove_job_directory(handover.job_directory());
  return WIFEXITED(status) ? WEXITSTATUS(status) : to_int(ExitCode::internal);
}

}  // namespace trainrun::agent
