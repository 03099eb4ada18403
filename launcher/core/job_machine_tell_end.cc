// What is said of a job that is ending.
#include "launcher/core/job_machine.h"

namespace trainrun::core {

Cause JobMachine::what_ended_it() const {
  switch (verdict_.kind) {
    case Outcome::Kind::worker_failed: {
      const auto all = failures();
      if (all.empty()) return cause::SomeRankFailed{};
      const auto& cause = all[first_cause(all)];
      return cause::RankFailed{who(cause), cause.status};
    }
    case Outcome::Kind::host_lost: {
      cause::RanksLost lost{named(verdict_.host), world_.ranks_on(verdict_.host), {}};
      const auto keep = [&lost](const auto& why) {
        if constexpr (requires { lost.why = why; }) lost.why = why;
      };
      if (verdict_.why) std::visit(keep, *verdict_.why);
      return lost;
    }
    case Outcome::Kind::user_signal:
      return cause::EndAsked{verdict_.signal, verdict_.by_ctl};
    case Outcome::Kind::output_closed:
      return cause::OutputClosed{};
    case Outcome::Kind::timed_out:
      return cause::TimeLimit{spec_.timeout.value_or(Duration::zero())};
    case Outcome::Kind::hung:
    case Outcome::Kind::unfinished:
    case Outcome::Kind::exchange_lost:
    case Outcome::Kind::no_hosts:
    case Outcome::Kind::port_refused:
    case Outcome::Kind::mpi_mixed:
      return verdict_.why.value_or(cause::JobOver{});
    case Outcome::Kind::success:
    case Outcome::Kind::hosts_failed:
      break;
  }
  return cause::JobOver{};
}

// An end that takes its time is explained before it is over.
void JobMachine::tell_ending() {
  // No rank lives any more: their agents end what they have left.
  if (phase_ == Phase::closing)
    return tell(notice::Ending{what_ended_it(), static_cast<int>(unplaced_.size()),
                               spec_.grace - explain_after, !unplaced_.empty()});
  const int left = world_.counts().to_end;
  const auto kill_in = ending_.drains_since() + spec_.grace - now_;
  if (left > 0 && kill_in > Duration::zero())  // else the SIGKILL has its own line, right now
    tell(notice::Ending{what_ended_it(), left, kill_in});
}

// What a rank left in the background is cut short, also when all is well: who expected it to go on must know.
void JobMachine::tell_leftovers(HostIndex host, std::uint32_t count, const std::vector<std::string>& names,
                                bool killed) {
  if (count == 0) return;
  tell(notice::Leftovers{named(host), world_.ranks_on(host), count, names, killed});
}

}  // namespace trainrun::core
