// What is reported: what became of each rank, when the job ended and how much time failures took.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <numeric>
#include <variant>

#include "tests/sim/judge.h"

namespace trainrun::sim {

using namespace core;
using Phase = JobMachine::Phase;

// Before the event is taken down: what ends the job is what came first.
void Judge::note_end(const JobEvent& event) {
  const bool begins = std::holds_alternative<Begin>(event);
  if (begins) begun_at_ = now_;
  if (const auto* signal = std::get_if<UserSignal>(&event)) note_signal(*signal);
  if (job_ends_ || expected_ || phase_ == Phase::closing || phase_ == Phase::done) return;
  if (std::holds_alternative<UserSignal>(event)) expected_ = Outcome::Kind::user_signal;
  if (std::holds_alternative<OutputClosed>(event) && phase_ != Phase::gathering)
    expected_ = Outcome::Kind::output_closed;
  const auto* passed = std::get_if<DeadlinePassed>(&event);
  if (passed != nullptr && passed->deadline == Deadline::job && !waits_.armed(Deadline::cause))
    expected_ = Outcome::Kind::timed_out;
}

// A second press within half a second is the same one.
void Judge::note_signal(const UserSignal& signal) {
  kills_now_ = leaves_now_ = false;
  if (presses_ > 0 && signal.number == last_signal_ && now_ - pressed_at_ < milliseconds(500)) return;
  if (presses_ == 0) first_press_ = now_;
  last_signal_ = signal.number;
  pressed_at_ = now_;
  if (++presses_ == 2) hurried_at_ = now_;
  kills_now_ = presses_ == 2 && phase_ == Phase::draining && job_ends_;
  leaves_now_ = phase_ != Phase::done && (presses_ >= 3 || (presses_ == 2 && phase_ == Phase::closing));
  to_kill_.clear();  // who has no place is not waited for by any phase before
  for (const auto& [id, worker] : workers_)
    if (presses_ == 2 && phase_ == Phase::closing && worker.dismissed && lives(worker)) to_kill_.insert(id);
  leaves_now_ = leaves_now_ && to_kill_.empty();
}

// The rendezvous is told first, then SIGTERM comes; SIGKILL only after the grace, or when the user insists.
void Judge::note_signals(const SignalWorkers& order) {
  if (!order.workers.empty()) return;
  asked_all_ = true;
  if (order.number != SIGKILL) {
    if (world_ && !over_) fail("ranks are asked to end before those who wait are told that it is over");
    if (order.deep) fail("SIGTERM is meant for ranks alone");
    return;
  }
  if (!order.deep) fail("SIGKILL is meant for all that ranks have started");
  if (!grace_passed_ && presses_ < 2) fail("SIGKILL comes before the grace is over");
  killed_now_ = true;
}

void Judge::check_ladder(Phase phase) {
  if (std::exchange(kills_now_, false) && !killed_now_ && !killed_before_ && phase == Phase::draining)
    fail("the user insists, and no SIGKILL comes");
  if (std::exchange(leaves_now_, false) && phase != Phase::done) fail("the user wants to leave at once");
  for (const auto id : std::exchange(to_kill_, {}))
    if (!step_.signalled.contains(id)) fail(fmt::format("the user insists, and worker {} is left", id.value));
  killed_before_ = phase == Phase::draining && (killed_before_ || killed_now_);
  killed_now_ = grace_passed_ = false;
}

void Judge::note_close(const notice::PhaseChanged& change) {
  if (change.to != Phase::closing) return;
  closed_at_ = now_;
  if (!job_ends_) over_before_end_ = over_;
  if (restart_since_) lost_time_ += now_ - *restart_since_;
  restart_since_.reset();
}

void Judge::check_told(const notice::GenerationFormed& formed) {
  if (!world_ || formed.generation != world_->placement.generation)
    return fail("another generation is told of");
  if (formed.ranks != static_cast<int>(world_->workers.size()))
    fail("a generation is told of with other ranks");
  std::set<HostIndex> on;
  for (const auto& seat : world_->placement.seats) on.insert(seat.host);
  if (scenario_.spec.map_by != MapBy::host && !kept_ && formed.hosts != static_cast<int>(on.size()))
    fail("a generation is told of with other hosts");
  if (formed.survivors > kept_state_) fail("more survivors are told of than there are");
  if (formed.took.has_value() != restart_since_.has_value())
    fail("a restart's time is not told, or is told without one");
  if (formed.took && *formed.took != now_ - *restart_since_)
    fail("a restart is told to have taken another time");
  if (restart_since_) lost_time_ += now_ - *restart_since_;
  restart_since_.reset();
}

void Judge::check_report(const Outcome& outcome) {
  using Kind = Outcome::Kind;
  const bool elastic = scenario_.spec.elastic.enabled();
  if (expected_ && outcome.kind != *expected_ && !(outcome.kind == Kind::user_signal && presses_ > 0))
    fail(fmt::format("the job is ended by \"{}\", and \"{}\" came first", to_string(outcome.kind),
                     to_string(*expected_)));
  if (outcome.generation != (elastic ? reserved_ : Generation{1})) fail("another generation is reported");
  if (outcome.restarts != restarts_seen_) fail("other restarts are reported than were made");
  const auto sum = [](const auto& causes) {
    return std::accumulate(causes.begin(), causes.end(), 0,
                           [](int all, const auto& one) { return all + one.second; });
  };
  if (sum(outcome.causes) < outcome.restarts) fail("restarts have fewer causes than there were");
  if (sum(outcome.causes) > outcome.restarts + hosts_lost_) fail("restarts have more causes than there were");
  if (outcome.gave_us_up) fail("an agent is reported to have given up the launcher");
  if (outcome.cause) check_named(*outcome.cause);
  if (!elastic && (outcome.restarts > 0 || !outcome.changes.empty())) fail("a job that cannot restart has");
  if (outcome.lost_time != lost_time_)
    fail(fmt::format("{} were lost, and {} are reported", format_duration(lost_time_),
                     format_duration(outcome.lost_time)));
  const bool told_alike = outcome.kind == Kind::unfinished || outcome.kind == Kind::port_refused ||
                          outcome.kind == Kind::hung || outcome.kind == Kind::no_hosts;
  if (told_alike && told_cause_ && outcome.why && told_cause_->index() != outcome.why->index())
    fail("those who wait are told another cause than is reported");
  check_out_of_restarts(outcome);
  check_times(outcome);
  check_tally(outcome);
  check_lost_host(outcome);
}

void Judge::check_out_of_restarts(const Outcome& outcome) {
  if (!outcome.out_of_restarts) return;
  const auto& limit = scenario_.spec.elastic.limit;
  const auto at = job_ends_.value_or(closed_at_.value_or(now_));
  const auto spent =
      std::count_if(restarts_.begin(), restarts_.end(), [&](Instant it) { return at - it <= limit.window; });
  if (spent < limit.count) fail("the job is out of restarts, and some are left");
}

void Judge::check_times(const Outcome& outcome) {
  using Kind = Outcome::Kind;
  auto closed = closed_at_.value_or(now_);
  if (outcome.kind == Kind::user_signal) {
    closed = std::max(closed, first_press_);  // it came last, and may have hit ranks and agents before
    if (outcome.took != closed - first_press_) fail("the end is reported to have taken another time");
    if (outcome.after != closed - begun_at_) fail("the end is reported at another time");
    return;
  }
  const auto at = outcome.cause ? outcome.cause->at : job_ends_.value_or(closed);
  if (outcome.after != std::max(at - begun_at_, Duration::zero()))
    fail("the end is reported at another time");
}

// Each member but the cause is counted once, as what became of it.
void Judge::check_tally(const Outcome& outcome) {
  const auto& told = outcome.others;
  const int sum = told.finished + told.failed + told.raised + told.terminated + told.killed + told.lost +
                  told.left + told.not_started;
  if (static_cast<int>(outcome.also_failed.size()) > told.failed)
    fail("more failures are named than counted");
  if (!world_) {
    if (told.not_started != sum) fail("ranks are reported, and none was ordered");
    return;
  }
  int members = 0, finished = 0, lost = 0, none = 0;
  for (const auto& [id, worker] : workers_) {
    if (!is_member(worker) || (outcome.cause && outcome.cause->worker == id)) continue;
    ++members;
    const bool unstarted = worker.status && worker.status->kind == ExitStatus::Kind::not_started;
    none += unstarted ? 1 : 0;
    lost += worker.state == Known::State::lost ? 1 : 0;
    finished +=
        worker.status && worker.status->success() && !worker.asked && worker.state == Known::State::exited
            ? 1
            : 0;
  }
  if (sum > members) fail("more ranks are reported than there were");
  if (presses_ >= 3 || over_before_end_) return;  // some are left behind, or went with an earlier world
  if (sum != members) fail(fmt::format("{} ranks are reported on of {}", sum, members));
  if (outcome.kind != Outcome::Kind::user_signal && told.lost != lost)
    fail(fmt::format("{} ranks were lost, and {} are reported", lost, told.lost));
  if (told.not_started != none)
    fail(fmt::format("{} ranks did not start, and {} are reported", none, told.not_started));
  if (told.finished != finished)
    fail(fmt::format("{} ranks finished, and {} are reported", finished, told.finished));
}

void Judge::check_lost_host(const Outcome& outcome) {
  if (outcome.kind != Outcome::Kind::host_lost) return;
  if (!host(outcome.host).was_lost)
    fail(fmt::format("host {} is reported as lost, and was not", outcome.host.value));
  std::vector<Rank> ranks;
  for (const auto& seat : world_ ? world_->placement.seats : std::vector<Seat>{})
    if (seat.host == outcome.host) ranks.push_back(seat.rank);
  if (world_ && !over_before_end_ && outcome.ranks != ranks)
    fail("other ranks are reported as lost than the host had");
}

}  // namespace trainrun::sim
