#include "launcher/run.h"

#include <signal.h>
#include <sys/random.h>

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <cstdio>

#include "cli/exit_code.h"
#include "launcher/base/strings.h"
#include "launcher/controller.h"
#include "launcher/fleet.h"
#include "launcher/steering.h"
#include "launcher/transport/local.h"

namespace trainrun {
namespace {

std::string fresh_key() {
  std::string key(32, '\0');
  if (::getrandom(key.data(), key.size(), 0) != static_cast<ssize_t>(key.size())) return {};
  return key;
}

bool ignored(int number) {
  struct sigaction action {};
  ::sigaction(number, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

int print_error(const Error& error) {
  std::fprintf(stderr, "trainrun: %s\n", error.message.c_str());
  if (!error.hint.empty()) std::fprintf(stderr, "  try: %s\n", error.hint.c_str());
  return static_cast<int>(exit_code_of(error.code));
}

// Signals of the user and of batch systems, for as long as this object lives.
class Signals {
 public:
  Signals(io::Loop& loop, Controller& controller) : controller_(controller), set_(loop.context()) {
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is told like a full disk
    ::signal(SIGCHLD, SIG_DFL);  // whoever ignored it for us would cost the exit codes of our children
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT}) {
      // What was ignored when we were started stays so: nohup, and `&` in a script.
      if (!ignored(number)) set_.add(number);
    }
    wait();
  }

 private:
  void wait() {
    set_.async_wait([this](const boost::system::error_code& error, int number) {
      if (error) return;
      switch (number) {
        case SIGTSTP:
          controller_.suspend();
          break;
        case SIGUSR1:
        case SIGUSR2:
        case SIGCONT:
          controller_.forward_signal(number);
          break;
        default:
          controller_.user_signal(number);
          break;
      }
      wait();
    });
  }

  Controller& controller_;
  boost::asio::signal_set set_;
};

}  // namespace

int run_job(const JobSpec& job, const std::vector<std::string>& notes, Surroundings surroundings) {
  core::Placement first;  // an elastic job finds its own, once its hosts are there
  if (!job.elastic.enabled()) {
    auto placement = core::place(job, Generation{1});
    if (!placement) return print_error(placement.error());
    first = std::move(*placement);
  }
  auto key = fresh_key();
  if (key.empty()) return print_error({Code::internal, "the kernel gave no random bytes for the job's key"});
  const auto& seats = first.seats;
  if (std::any_of(seats.begin(), seats.end(), [&job](const auto& seat) {
        return transport_kind(job, job.hosts.hosts[seat.host.value]) == TransportKind::local;
      }))
    transport::fork_local_agent_ahead();
  io::Loop loop;
  Controller controller(loop, job, std::move(first), std::move(key));
  Steering steering(loop, job, controller, std::move(surroundings));
  Signals signals(loop, controller);
  if (job.verbose > 0) controller.say(fmt::format("job {}", job.id));  // what `trainrun ctl --job` takes
  for (const auto& note : notes) controller.say(note);
  if (!job.not_forwarded.empty() && !job.inherit_all) {
    controller.say(
        fmt::format("not forwarded: {} (add -x NAME or --env all)", list_names(job.not_forwarded)));
  }
  if (const auto started = controller.start(); !started) return print_error(started.error());
  loop.run();
  return controller.exit_code();
}

}  // namespace trainrun
