#include "launcher/run.h"

#include <malloc.h>
#include <signal.h>
#include <sys/random.h>

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/system/system_error.hpp>
#include <filesystem>
#include <optional>
#include <utility>

#include "launcher/agent/host_facts.h"
#include "launcher/agent/job_directory.h"
#include "launcher/agent/predecessor.h"
#include "launcher/base/end_by_signal.h"
#include "launcher/base/open_files.h"
#include "launcher/base/strings.h"
#include "launcher/controller.h"
#include "launcher/core/env_var.h"
#include "launcher/fleet.h"
#include "launcher/io/turn.h"
#include "launcher/output/events_file.h"
#include "launcher/output/journal_file.h"
#include "launcher/output/our_lines.h"
#include "launcher/steering.h"
#include "launcher/transport/local.h"

namespace trainrun {
namespace {

std::string fresh_key() {
  std::string key(32, '\0');
  if (::getrandom(key.data(), key.size(), 0) != static_cast<ssize_t>(key.size())) return {};
  return key;
}

// For watchers whose agents have gone; those of an agent that hangs do not keep us.
constexpr Duration goodbye = milliseconds(500);

// Signals of the user and of batch systems, for as long as this object lives.
class Signals {
 public:
  Signals(io::Loop& loop, Controller& controller) : controller_(controller), set_(loop.context()) {
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is told like a full disk
    ::signal(SIGCHLD, SIG_DFL);  // whoever ignored it for us would cost the exit codes of our children
    sigset_t heard;
    sigemptyset(&heard);
    sigaddset(&heard, SIGCHLD);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT}) {
      sigaddset(&heard, number);
      // What was ignored when we were started stays so: nohup, and `&` in a script.
      if (!is_ignored(number)) set_.add(number);
    }
    // One that a parent has blocked for itself would never come.
    ::sigprocmask(SIG_UNBLOCK, &heard, nullptr);
    wait();
  }

  // The third leaves at once.
  [[nodiscard]] bool leaves_at_once() const { return to_end_ >= 3; }

 private:
  void wait() {
    set_.async_wait([this](const boost::system::error_code& error, int number) {
      const io::Turn turn;
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
          ++to_end_;
          controller_.user_signal(number);
          break;
      }
      wait();
    });
  }

  Controller& controller_;
  boost::asio::signal_set set_;
  int to_end_ = 0;
};

}  // namespace

namespace {

double in_ms(Duration time) { return std::chrono::duration<double, std::milli>(time).count(); }

// Those that were killed with their watchers. On other hosts the next agent finds what they left.
void clear_after_agents_here(const JobSpec& job) {
  const auto* jobs_own = core::find_variable(job.env, "TMPDIR");
  std::size_t ended = 0;
  for (const auto& place :
       agent::places_for_job_directory(jobs_own == nullptr ? "" : *jobs_own, agent::own_tmpdir()))
    ended += agent::clear_after_dead_agents(place, job.id).processes;
  if (ended > 0)
    output::print_line(stderr, fmt::format("trainrun: {} that ranks here had left {} ended",
                                           counted(static_cast<std::int64_t>(ended), "process"),
                                           ended == 1 ? "was" : "were"));
}

// --events and --journal may name files in the folder that --output-filename makes, later. Whoever opens them
// tells what is wrong.
void make_folder_for(const std::string& file, std::string folder) {
  while (folder.ends_with('/')) folder.pop_back();
  std::error_code ignored;
  if (!folder.empty() && file.starts_with(folder + "/")) std::filesystem::create_directories(folder, ignored);
}

// Output takes and frees pieces of some hundred KB all the time, here and in the agent: without this glibc
// gives each back to the kernel, which clears it for the next.
void keep_freed_memory() {
  for (const int limit : {M_TRIM_THRESHOLD, M_MMAP_THRESHOLD}) ::mallopt(limit, 4 << 20);
}

// An elastic job dials all of its hosts, others those that have ranks.
bool begins_here(const JobSpec& job, const core::Placement& first) {
  const auto local = [&job](const Host& host) { return transport_kind(job, host) == TransportKind::local; };
  const auto& hosts = job.hosts.hosts;
  if (job.elastic.enabled()) return std::any_of(hosts.begin(), hosts.end(), local);
  return std::any_of(first.seats.begin(), first.seats.end(),
                     [&](const auto& seat) { return local(hosts[seat.host.value]); });
}

struct End {
  int code = 0;
  int signal = 0;        // from outside, that ended the job
  bool at_once = false;  // the user left without waiting for anything
  bool lost_agent_here = false;
};

End run_in_loop(const JobSpec& job, const std::vector<std::string>& notes, Surroundings surroundings) {
  core::Placement first;  // an elastic job finds its own, once its hosts are there
  if (!job.elastic.enabled()) {
    auto placement = core::place(job, Generation{1});
    if (!placement) return {output::print_error(placement.error())};
    first = std::move(*placement);
  }
  for (const auto& file : {job.events, job.journal}) make_folder_for(file, job.output_directory);
  std::optional<Result<Fd>> events;
  if (!job.events.empty()) events = output::open_events(job.events);
  std::optional<Result<Fd>> journal;
  if (!job.journal.empty()) journal = output::open_journal(job.journal, job.id);
  auto key = fresh_key();
  if (key.empty())
    return {output::print_error({Code::internal, "the kernel gave no random bytes for the job's key"})};
  keep_freed_memory();
  if (begins_here(job, first)) transport::fork_local_agent_ahead();
  io::Loop loop;
  loop.leave_out_stops();
  Controller controller(loop, job, std::move(first), std::move(key));
  if (journal) controller.write_journal(std::move(*journal));
  Steering steering(loop, job, controller, std::move(surroundings));
  Signals signals(loop, controller);
  if (job.verbose > 0) controller.say(fmt::format("job {}", job.id));  // what `trainrun ctl --job` takes
  for (const auto& note : notes) controller.say(note);
  if (events) controller.write_events(std::move(*events));
  if (!job.not_forwarded.empty() && !job.inherit_all) {
    controller.say(fmt::format("not forwarded: {} (add -x NAME{})", list_names(job.not_forwarded),
                               job.as_mpirun ? "" : " or --env all"));
  }
  if (const auto started = controller.start(); !started) {
    controller.could_not_start(started.error());
    loop.run();
    return {output::print_error(started.error())};
  }
  if (job.verbose > 2) io::Turn::measure();
  loop.run();
  if (job.verbose > 2) {
    const auto longest = io::Turn::longest();
    output::print_line(
        stderr,
        fmt::format("trainrun: the longest of {} turns of the loop: {:.1f} ms of CPU, {:.1f} ms in {}",
                    longest.turns, in_ms(longest.cpu), in_ms(longest.blocked),
                    counted(longest.blocking_calls, "blocking call")));
  }
  return {controller.exit_code(), controller.ended_by(), signals.leaves_at_once(),
          controller.lost_agent_here()};
}

}  // namespace

// What Asio throws is that the kernel refused a descriptor or what it needs to watch one. Whatever runs then
// loses its launcher: the agents end it.
int run_job(const JobSpec& job, const std::vector<std::string>& notes, Surroundings surroundings) try {
  const auto end = run_in_loop(job, notes, std::move(surroundings));
  // Only now: what the loop held has gone while our own agent did.
  if (!end.at_once) transport::await_local_agents(goodbye);
  if (end.lost_agent_here) clear_after_agents_here(job);
  return end.signal != 0 ? end_by_signal(end.signal) : end.code;
} catch (const boost::system::system_error& error) {
  return output::print_error(no_more_to_wait_with(error.code().value()));
}

}  // namespace trainrun
