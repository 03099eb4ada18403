// Who has not told by a deadline what was due: it is given up, unless its reports arrive late.
#include <fmt/format.h>
#include <algorithm>

#include "launcher/core/job_machine.h"

namespace trainrun::core {

// Of what was due on the host: nothing if it is known, and has not happened.
std::optional<Instant> JobMachine::news_come(HostIndex host, Instant due) {
  const auto limit = LateNews::limit(due, ending_.hurried_at());
  const auto again = late_.look_again(host, due, limit, now_);
  if (again && late_.is_to_be_told(host, ending_.drains_since()))
    tell(notice::NewsLate{named(host), *late_.of(host, now_), limit - now_});
  return again;
}

// The user has asked twice: what is awaited since it was due is looked at now, with the shorter limit.
void JobMachine::hurry_the_late() {
  for (const auto deadline : {Deadline::kill, Deadline::sweep})
    if (const auto it = armed_.find(deadline); it != armed_.end() && it->second < now_)
      put_off(deadline, it->second, now_);
}

// What was due then is still awaited.
void JobMachine::put_off(Deadline deadline, Instant due, Instant at) {
  act(Arm{deadline, at});
  armed_[deadline] = due;
}

void JobMachine::give_up_those_who_withstand(Instant due, bool ending) {
  std::set<HostIndex> bad;
  std::optional<Instant> again;
  for (const auto& [id, worker] : world_.all()) {
    if (!worker.awaited() || !worker.killed()) continue;
    if (const auto come = news_come(worker.seat.host, due))
      again = std::min(again.value_or(*come), *come);
    else
      bad.insert(worker.seat.host);
  }
  if (again) put_off(Deadline::kill, due, *again);
  for (const auto host : bad) give_up_stuck(host, due);
  after_worker_change();
  if (phase_ == Phase::draining && ending && !again) output_is_late(due);
}

// The last output of some that have ended still waits, as for a slow reader of ours. That reader decides how
// long the job waits, unless the user has said when it is to end; or it is on its way.
void JobMachine::output_is_late(Instant due) {
  const bool user_waits = verdict_.kind == Outcome::Kind::user_signal ||
                          verdict_.kind == Outcome::Kind::timed_out || ending_.requests() > 0;
  int late = 0;
  std::optional<Instant> again;
  for (const auto& [id, worker] : world_.all()) {
    if (worker.state != WorkerState::exited) continue;
    if (const auto come = user_waits ? news_come(worker.seat.host, due) : std::nullopt) {
      again = std::min(again.value_or(*come), *come);
      continue;
    }
    ++late;
    if (user_waits) world_.change(id, [](Worker& it) { it.state = WorkerState::finished; });
  }
  if (again) put_off(Deadline::kill, due, *again);
  if (!user_waits) {
    if (late > 0 && ending_.wait_for_output()) tell(notice::OutputUnread{late, false});
    return arm(Deadline::kill, now_ + after_kill);
  }
  if (late > 0 || !again) tell(notice::OutputUnread{late});
  after_worker_change();
}

void JobMachine::not_all_swept(Instant due) {
  std::optional<Instant> again;
  for (std::uint32_t i = 0; i < roster_.size(); ++i) {
    if (!roster_.at({i}).sweeping) continue;
    if (const auto come = news_come({i}, due)) {
      again = std::min(again.value_or(*come), *come);
      continue;
    }
    tell(notice::ClearUpUnconfirmed{named({i}), true});
    abandon_stuck({i}, "its agent did not clear up");
  }
  if (again) return put_off(Deadline::sweep, due, *again);
  after_drain();  // the last output of the dead may come later
}

void JobMachine::give_up_stuck(HostIndex host, Instant due) {
  const auto late = late_.of(host, now_);
  if (late_.is_silent(host)) {
    tell(notice::ProcessesStuck{named(host), *late});
    return abandon_stuck(host, fmt::format("no answer for {}", format_duration(*late)));
  }
  if (late && now_ - *late < due) {
    tell(notice::NewsLate{named(host), *late, now_ - due, true});
    return abandon_stuck(host, fmt::format("its host's reports arrived {} late", format_duration(*late)));
  }
  tell(notice::ProcessesStuck{named(host), {}});
  abandon_stuck(host, "a process there did not end even by SIGKILL");
}

// An agent that cannot end its processes is of no use for the next generation either.
void JobMachine::abandon_stuck(HostIndex host, const std::string& why) {
  give_up_host(host);
  if (elastic()) roster_.host_failed(host, now_);
  lose_workers_of(host, why);
}

}  // namespace trainrun::core
