// What is said of a job that is ending.
#include <fmt/format.h>

#include <algorithm>

#include "launcher/base/strings.h"
#include "launcher/base/utf8.h"
#include "launcher/core/job_machine.h"

namespace trainrun::core {

int JobMachine::still_to_end() const {
  return static_cast<int>(std::count_if(workers_.begin(), workers_.end(), [](const auto& it) {
    const auto& worker = it.second;
    return worker.condemned && (worker.state == WorkerState::ordered || worker.state == WorkerState::spawned);
  }));
}

std::vector<Rank> JobMachine::ranks_on(HostIndex host) const {
  std::vector<Rank> ranks;
  for (const auto& seat : world_.seats)
    if (begun_ && seat.host == host) ranks.push_back(seat.rank);
  return ranks;
}

// Like the first words of the report, from what is known by now.
std::string JobMachine::what_ended_it() const {
  switch (verdict_.kind) {
    case Outcome::Kind::worker_failed: {
      const auto all = failures();
      if (all.empty()) return "a rank failed";
      const auto& cause = all[first_cause(all)];
      return fmt::format("rank {} on {} {}", cause.rank.value, host_name(cause.host),
                         cause.status.describe());
    }
    case Outcome::Kind::host_lost:
      return fmt::format("host {} was lost: {}",
                         name_with_ranks(host_name(verdict_.host), ranks_on(verdict_.host)), verdict_.reason);
    case Outcome::Kind::user_signal:
      return who_asked(verdict_.signal, verdict_.by_ctl);
    case Outcome::Kind::output_closed:
      return "nobody reads the output any more";
    case Outcome::Kind::timed_out:
      return fmt::format("the time limit passed (--timeout {})",
                         format_duration(spec_.timeout.value_or(Duration::zero())));
    case Outcome::Kind::hung:
    case Outcome::Kind::no_hosts:
    case Outcome::Kind::success:
    case Outcome::Kind::hosts_failed:
    case Outcome::Kind::port_refused:
      break;
  }
  return verdict_.reason;
}

std::string JobMachine::generation_end_reason() const {
  switch (verdict_.kind) {
    case Outcome::Kind::worker_failed: {
      const auto all = failures();
      return all.empty() ? "a rank failed" : all[first_cause(all)].status.describe();
    }
    case Outcome::Kind::host_lost:
      return what_ended_it();
    case Outcome::Kind::user_signal:
      return "the launcher was asked to end the job by " + who_asked(verdict_.signal, verdict_.by_ctl);
    case Outcome::Kind::output_closed:
      return "nobody reads the job's output any more";
    case Outcome::Kind::timed_out:
      return "the job's time limit passed";
    case Outcome::Kind::hung:
    case Outcome::Kind::no_hosts:
      return verdict_.reason;
    case Outcome::Kind::success:
    case Outcome::Kind::hosts_failed:
    case Outcome::Kind::port_refused:
      break;
  }
  return "the job ended";
}

// An end that takes its time is explained before it is over.
void JobMachine::tell_ending() {
  const int left = still_to_end();
  const auto kill_in = drained_at_ + spec_.grace - now_;
  if (left > 0 && kill_in > Duration::zero())  // else the SIGKILL has its own line, right now
    say(fmt::format("{}; ending {}: SIGKILL in {}", what_ended_it(), counted(left, "rank"),
                    format_duration(kill_in)));
}

// What a rank left in the background is cut short, also when all is well: who expected it to go on must know.
void JobMachine::tell_leftovers(HostIndex host, std::uint32_t count, const std::vector<std::string>& names,
                                bool killed) {
  if (count == 0) return;
  const auto ranks = ranks_on(host);
  std::vector<std::string> shown;
  for (const auto& name : names) shown.push_back(harmless(std::string_view(name).substr(0, 16)));
  say(fmt::format("{} on {} ended and left {} {}{}: ended too{}",
                  ranks.size() == 1 ? fmt::format("rank {}", ranks.front().value) : "ranks", host_name(host),
                  count, count == 1 ? "process" : "processes",
                  shown.empty() ? "" : fmt::format(" ({})", list_names(shown)),
                  killed ? ", by SIGKILL" : ""));
}

}  // namespace trainrun::core
