#include "launcher/agent/agent_main.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <initializer_list>

#include "launcher/agent/agent.h"
#include "launcher/agent/watcher.h"
#include "launcher/base/open_files.h"
#include "launcher/base/strings.h"
#include "launcher/io/clock.h"
#include "launcher/wire/messages.h"

namespace trainrun::agent {
namespace {

void null_on(std::initializer_list<int> targets, int mode) {
  const Fd null(::open("/dev/null", mode | O_CLOEXEC));
  for (const int target : targets)
    if (null) ::dup2(null.get(), target);
}

// In the agent that was forked from a launcher. stdin stays: a local worker may be given it as it is. The
// launcher's stdout and stderr must not be held open by an agent.
void forget_launcher() {
  io::forget_stops();
  null_on({STDOUT_FILENO, STDERR_FILENO}, O_WRONLY);
  for (const int number :
       {SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGCHLD, SIGPIPE, SIGWINCH})
    ::signal(number, SIG_DFL);
  struct sigaction hangup {};
  ::sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) ::signal(SIGHUP, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

int serve(Fd in, Fd out, Handover& handover) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is told like a full disk
  // A signalfd, not Asio's signal_set: that keeps global state, which a fork of the launcher would share with
  // it.
  sigset_t signals;
  sigemptyset(&signals);
  // All that our watcher hands on: by its default action any of them would end us, and KILL our ranks.
  for (const int number : {SIGCHLD, SIGTERM, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2}) sigaddset(&signals, number);
  struct sigaction hangup {};
  ::sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN)
    sigaddset(&signals, SIGHUP);  // while it is blocked, nohup would not count
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  io::Loop loop;
  Agent agent(loop, std::move(in), std::move(out), handover);
  boost::asio::posix::stream_descriptor source(loop.context(),
                                               ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  const std::function<void()> wait = [&] {
    source.async_wait(source.wait_read, [&](const boost::system::error_code& error) {
      if (error) return;
      signalfd_siginfo info{};
      while (::read(source.native_handle(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
        if (info.ssi_signo != static_cast<std::uint32_t>(SIGCHLD))
          agent.on_signal(static_cast<int>(info.ssi_signo));
      }
      agent.on_child();
      wait();
    });
  };
  wait();
  loop.run();
  return agent.exit_code();
}

}  // namespace

namespace {

// A copy that a crash cut short would run until it needs what it lacks. No greeting: the launcher has it
// replaced.
bool is_whole(const std::string& size) {
  struct stat own {};
  const auto has = ::stat("/proc/self/exe", &own) == 0 ? std::to_string(own.st_size) : errno_text(errno);
  if (has != size)
    std::fprintf(stderr, "this copy of trainrun's agent has %s of %s bytes\n", has.c_str(), size.c_str());
  return has == size;
}

// The limit is raised anew, so that it is known which one to give to workers.
void take_limit(const std::string& soft) {
  rlimit limit{};
  const auto given = parse_unsigned<std::uint64_t>(soft);
  if (!given || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(*given, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
  raise_open_files();
}

int serve_launcher_here(const std::vector<std::string>& words) {
  const auto number = parse_unsigned<std::uint16_t>(words[1]);
  if (!number || *number < 3 || !is_whole(words[2])) return 1;
  Fd link(*number);
  if (::fcntl(link.get(), F_SETFD, FD_CLOEXEC) != 0) return 1;
  take_limit(words[3]);
  const int keep = link.get();
  return watch_over(
      [&](Handover& handover) {
        forget_launcher();
        return serve(std::move(link), Fd(), handover);
      },
      keep, -1);
}

}  // namespace

int agent_main(const std::vector<std::string>& words) {
  if (words.size() == 1 && words[0] == "--version") {
    std::printf("trainrun agent %s, protocol %u\n", TRAINRUN_VERSION, wire::protocol_version);
    return 0;
  }
  if (words.size() == 4 && words[0] == "--link") return serve_launcher_here(words);
  if (words.size() != 3 || words[0] != "--greet") {
    std::fputs("This is trainrun's agent. It is started by trainrun, not by hand.\n", stderr);
    return 2;
  }
  if (!is_whole(words[2])) return 1;
  raise_open_files();
  if (!write_all(STDOUT_FILENO, words[1] + " ready\n")) return 1;
  Fd in(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)), out(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  if (!in || !out) return 1;
  // Nobody but the agent may hold the channel open, or its end would not be seen at the other side.
  null_on({STDIN_FILENO}, O_RDONLY);
  null_on({STDOUT_FILENO}, O_WRONLY);
  const int keep_in = in.get(), keep_out = out.get();
  return watch_over([&](Handover& handover) { return serve(std::move(in), std::move(out), handover); },
                    keep_in, keep_out);
}

Result<int> fork_agent(Fd link) {
  std::fflush(nullptr);  // or the child would write our buffered text again
  // A handler of the launcher must not run in a child, which shares its pipe for signals. The watcher goes on
  // with all blocked, and takes what concerns it by waiting for it.
  sigset_t all, before;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::fork();
  if (pid != 0) {
    const int error = errno;
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    if (pid > 0) return static_cast<int>(pid);
    return fail(Code::try_again, "cannot fork an agent: " + errno_text(error),
                "see `ulimit -u` and the memory left");
  }
  const int keep = link.get();
  ::_exit(watch_over(
      [&](Handover& handover) {
        forget_launcher();
        return serve(std::move(link), Fd(), handover);
      },
      keep, -1));
}

}  // namespace trainrun::agent
