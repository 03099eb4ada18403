// Runs a command to its end and writes what it cost to a file.
//
//   bench_timed REPORT SECONDS COMMAND [ARGUMENT...]
//
// The wait blocks, so nothing rounds the time up. It is small, since a child's peak memory begins with that
// of its parent. What the command leaves behind falls to this process, is waited for and counted: nothing of
// one run may weigh on the next. After SECONDS everything is killed, and the run counts as a hang.
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>

extern char** environ;

namespace {

volatile sig_atomic_t hung = 0;

void on_alarm(int) { hung = 1; }

long long now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<long long>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

long long cpu_us(const struct rusage& usage) {
  return (static_cast<long long>(usage.ru_utime.tv_sec) + usage.ru_stime.tv_sec) * 1'000'000 +
         usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

// Needs CONFIG_PROC_CHILDREN; without it only the command itself is killed.
void kill_children(pid_t command) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/children", static_cast<int>(getpid()));
  if (FILE* list = std::fopen(path, "re")) {
    for (int pid; std::fscanf(list, "%d", &pid) == 1;) kill(pid, SIGKILL);
    std::fclose(list);
  } else if (command > 0) {
    kill(command, SIGKILL);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  struct sigaction action {};
  action.sa_handler = on_alarm;  // without SA_RESTART: it ends the wait
  sigaction(SIGALRM, &action, nullptr);
  itimerval deadline{};
  deadline.it_value.tv_sec = std::atol(argv[2]);
  deadline.it_interval.tv_usec = 100'000;  // an alarm may come just before a wait begins
  setitimer(ITIMER_REAL, &deadline, nullptr);

  const long long begun = now_ns();
  pid_t command = -1;
  if (const int error = posix_spawnp(&command, argv[3], nullptr, nullptr, argv + 3, environ); error != 0) {
    errno = error;
    std::perror(argv[3]);
    return 127;
  }
  long long ended = 0;
  int status = 0, left_behind = 0;
  struct rusage own {};
  for (;;) {
    int one = 0;
    struct rusage usage {};
    const pid_t pid = wait4(-1, &one, 0, &usage);
    if (pid < 0 && errno == EINTR) {
      if (hung) kill_children(ended == 0 ? command : -1);
      continue;
    }
    if (pid < 0) break;  // nobody is left
    if (pid == command) {
      ended = now_ns();
      status = one;
      own = usage;
    } else if (ended != 0) {
      ++left_behind;
    }
  }
  const long long gone = now_ns();
  struct rusage all {};
  getrusage(RUSAGE_CHILDREN, &all);
  FILE* report = std::fopen(argv[1], "we");
  if (report == nullptr) return 1;
  std::fprintf(report,
               "{\"wall_ns\": %lld, \"gone_ns\": %lld, \"code\": %d, \"hung\": %d, \"left_behind\": %d, "
               "\"cpu_us\": %lld, \"own_cpu_us\": %lld, \"own_peak_kib\": %ld}\n",
               ended - begun, gone - begun, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
               static_cast<int>(hung), left_behind, cpu_us(all), cpu_us(own), own.ru_maxrss);
  return std::fclose(report) == 0 ? 0 : 1;
}
