// How a job ends: signals of the user, deadlines, the ladder from TERM to KILL, and the verdict.
#include "launcher/core/job_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

namespace trainrun::core {
namespace {

// An agent that was told to stop needs the grace for what workers left behind, and this to say so.
constexpr Duration to_say_goodbye = seconds(3);
// All have ended, and who reads their last output has had the grace for it.
constexpr Duration for_last_output = seconds(1);

// A batch system's cancel reaches ranks, agents and us in any order: what it did to them is no failure.
bool may_have_hit_all(const Outcome& verdict, const World& world, int number) {
  if (verdict.kind == Outcome::Kind::host_lost) return number == SIGTERM;
  const auto& all = world.all();
  return verdict.kind == Outcome::Kind::worker_failed &&
         std::all_of(all.begin(), all.end(), [number](const auto& it) {
           return !it.second.failure || it.second.failure->status == ExitStatus::killed(number, false);
         });
}

void take_for_users(Outcome& verdict) {
  verdict.kind = Outcome::Kind::user_signal;
  verdict.out_of_restarts = false;
}

}  // namespace

// ---- the user

void JobMachine::on(const UserSignal& event) {
  const auto request = ending_.request(event, now_);
  if (request == Ending::Request::same_press) return ignore("signal", "it is the same press");
  if (phase_ == Phase::done) return end_a_success(event);
  const bool first = request == Ending::Request::first;
  const auto answer = [&](EndAnswer it) {
    tell(notice::EndRequested{.signal = event.number, .by_ctl = event.by_ctl, .answer = it});
  };
  if (first) {
    verdict_.signal = event.number;
    verdict_.by_ctl = event.by_ctl;
  }
  if (request == Ending::Request::third) {
    tell(notice::LeavingAtOnce{});
    return leave_at_once();
  }
  switch (phase_) {
    case Phase::gathering:
    case Phase::forming:
    case Phase::running:
    case Phase::cooling:
      if (progress().started > 0) {
        tell(notice::EndRequested{event.number, event.by_ctl, EndAnswer::ends_ranks, progress().alive,
                                  spec_.grace});
      }
      verdict_.host_errors.clear();
      return end_because(Outcome::Kind::user_signal);
    case Phase::draining:
      if (then_ == Then::restart) {
        answer(EndAnswer::ends_job);
        return end_instead(Outcome::Kind::user_signal);
      }
      if (first) {
        if (may_have_hit_all(verdict_, world_, event.number)) take_for_users(verdict_);
        answer(EndAnswer::ends_already);
        return;
      }
      answer(EndAnswer::kills);
      kill_now();
      return hurry_the_late();
    case Phase::closing:
      if (first) {
        if (!may_have_hit_all(verdict_, world_, event.number)) return;
        take_for_users(verdict_);
        return tell_time_of_end();
      }
      if (unplaced_.empty()) return leave_at_once();
      answer(EndAnswer::kills);
      return act(SignalWorkers{SIGKILL, false, std::vector<WorkerId>(unplaced_.begin(), unplaced_.end())});
    case Phase::done:
      return;
  }
}

// All ranks have ended well, and their last output waits to be read: a shell's loop around us is to stop all
// the same.
void JobMachine::end_a_success(const UserSignal& event) {
  if (verdict_.kind != Outcome::Kind::success) return ignore("signal", "all is over");
  take_for_users(verdict_);
  verdict_.signal = event.number;
  verdict_.by_ctl = event.by_ctl;
  verdict_.after = now_ - began_;
  verdict_.exit_code = exit_code_of(verdict_);
  tell(notice::EndRequested{.signal = event.number,
                            .by_ctl = event.by_ctl,
                            .answer = EndAnswer::waits_for_output,
                            .grace = spec_.grace});
  act(Finish{verdict_});
}

void JobMachine::on(const OutputClosed&) {
  switch (phase_) {
    case Phase::gathering:
    case Phase::closing:
    case Phase::done:
      return ignore("output closed", "nothing is running");
    case Phase::forming:
    case Phase::running:
    case Phase::cooling:
      return end_because(Outcome::Kind::output_closed);
    case Phase::draining:
      if (then_ == Then::restart) return end_instead(Outcome::Kind::output_closed);
      return ignore("output closed", "the job is ending");
  }
}

// ---- deadlines

void JobMachine::on(const DeadlinePassed& event) {
  const auto armed = armed_.extract(event.deadline);
  if (armed.empty()) return ignore("deadline", "it was disarmed");
  const auto due = armed.mapped();
  const bool ending = then_ == Then::end;  // and not because of what follows now
  switch (event.deadline) {
    case Deadline::start:
      if (phase_ != Phase::gathering) return ignore("start deadline", "all hosts are there");
      return elastic() ? start_without_the_late() : give_up_gathering();
    case Deadline::job:
      // What ends the job came before.
      if (armed_.contains(Deadline::cause) && !elastic()) return cause_is_known();
      switch (phase_) {
        case Phase::gathering:
        case Phase::forming:
        case Phase::running:
        case Phase::cooling:
          return end_because(Outcome::Kind::timed_out);
        case Phase::draining:
          if (then_ == Then::restart) return end_instead(Outcome::Kind::timed_out);
          [[fallthrough]];
        case Phase::closing:
        case Phase::done:
          return ignore("job deadline", "the job is ending");
      }
      return;
    case Deadline::grace:
      if (phase_ != Phase::draining) return ignore("grace", "no worker is left");
      if (then_ == Then::restart && survivors_stay_) return kill_late_starters(due);
      return kill_now(true);
    case Deadline::kill:
      if (phase_ != Phase::draining) return ignore("kill deadline", "no worker is left");
      return give_up_those_who_withstand(due, ending);
    case Deadline::stop:
      if (phase_ != Phase::closing) return ignore("stop deadline", "not closing");
      for (std::uint32_t i = 0; i < roster_.size(); ++i) {
        if (roster_.at({i}).state == HostState::stopping) tell(notice::ClearUpUnconfirmed{named({i}), false});
      }
      return leave_at_once();
    case Deadline::sweep:
      if (phase_ != Phase::draining) return ignore("sweep deadline", "nobody is asked to clear up");
      return not_all_swept(due);
    case Deadline::backoff:
      return try_form();
    case Deadline::hosts:
      return consider_change();
    case Deadline::settle:
      return settled();
    case Deadline::world:
      if (phase_ != Phase::gathering && phase_ != Phase::cooling)
        return ignore("world deadline", "the world was formed");
      return end_without_hosts(spec_.elastic.timeout, Limit::elastic_timeout);
    case Deadline::join:
      return members_late();
    case Deadline::leave:
      return grace_of_leavers_over();
    case Deadline::inspect:
      return inspection_over();
    case Deadline::notice:
      return phase_ == Phase::gathering ? tell_connecting() : tell_ending();
    case Deadline::cause:
      return cause_is_known();
    case Deadline::steady:
      if (phase_ != Phase::running) return;
      restarts_.proved();
      // The others have shown that they go on.
      if (!armed_.contains(Deadline::finish)) somebody_left_well_ = false;
      return consider_change();  // it may grow, or grow again
    case Deadline::finish:
      return end_unfinished();
    case Deadline::newcomers:
      return newcomers_due();
  }
}

void JobMachine::start_without_the_late() {
  for (std::uint32_t i = 0; i < roster_.size(); ++i) {
    if (roster_.at({i}).state != HostState::dialling) continue;
    const auto why =
        fmt::format("{}: no answer within {}", host_name({i}), format_duration(gathering_timeout()));
    const Error error{Code::unreachable, why, {}};
    tell(notice::HostsFailed{{{named({i}), error}}, false});
    roster_.change({i}, [&](HostEntry& it) { it.note = why; });
    verdict_.host_errors.emplace_back(HostIndex{i}, error);
    give_up_host({i});
    roster_.could_not_be_reached({i}, now_);
  }
  try_form();
}

// ---- ending

void JobMachine::end_because(Outcome::Kind kind) {
  if (world_.counts().members > 0) {
    drain(kind);
    return after_worker_change();
  }
  verdict_.kind = kind;
  settle_verdict();
  if (begun_generation_.value == 0) verdict_.others.not_started = spec_.world_size();
  close();
}

// The drain that was to end in a restart ends the job.
void JobMachine::end_instead(Outcome::Kind kind) {
  disarm(Deadline::sweep);
  disarm(Deadline::kill);
  drain(kind);
  after_worker_change();
}

void JobMachine::drain(Outcome::Kind kind) {
  verdict_.kind = kind;
  then_ = Then::end;
  ending_.drain(SIGTERM, now_);
  for (const auto& [id, worker] : world_.all())
    world_.change(id, [](Worker& it) {
      it.fate = std::max(it.fate, Fate::condemned);
      it.newcomer = false;
    });
  enter(Phase::draining);
  // Who waits in the rendezvous learns the cause before the signal comes: a typed error instead of a mute
  // end.
  act(EndGeneration{world_.generation(), kind == Outcome::Kind::worker_failed ? culprit() : std::nullopt,
                    what_ended_it(), true});
  act(SignalWorkers{SIGTERM, false});
  arm(Deadline::grace, now_ + spec_.grace);
  // A signal was answered when it came.
  if (kind != Outcome::Kind::user_signal) arm(Deadline::notice, now_ + explain_after);
  if (ending_.requests() >= 2) kill_now();
}

void JobMachine::kill_now(bool grace_is_over) {
  if (!ending_.kill()) return;
  const bool explained = !armed_.contains(Deadline::notice);
  // Of those who leave, too, the kill deadline tells from now on who withstands: they had no SIGKILL before.
  for (const auto deadline : {Deadline::grace, Deadline::notice, Deadline::leave}) disarm(deadline);
  const int alive = world_.counts().to_end;
  int known = 0;  // to live
  for (const auto& [id, worker] : world_.all()) {
    if (!worker.condemned() || !worker.alive()) continue;
    if (!late_.of(worker.seat.host, now_)) ++known;
    world_.doom(id, Fate::killed);
  }
  // The user's second signal has had its answer.
  if (known > 0 && grace_is_over) {
    tell(notice::Killing{explained ? std::nullopt : std::optional(what_ended_it()), known,
                         now_ - ending_.drains_since(), ending_.drain_signal(),
                         ending_.grace_to_advise(spec_.grace)});
  }
  act(SignalWorkers{SIGKILL, true});
  arm(Deadline::kill, now_ + (alive > 0 ? after_kill : for_last_output));
}

void JobMachine::close() {
  // Who had no place any more was left to itself; what it is asked to do now nobody left behind.
  unplaced_ = world_.dismissed();
  if (!unplaced_.empty())
    act(SignalWorkers{SIGTERM, false, std::vector<WorkerId>(unplaced_.begin(), unplaced_.end())});
  for (const auto& [id, worker] : world_.all())
    world_.change(id, [](Worker& it) {
      it.state = WorkerState::finished;
      it.newcomer = false;
    });
  enter(Phase::closing);
  for (std::uint32_t i = 0; i < roster_.size(); ++i) {
    switch (roster_.at({i}).state) {
      case HostState::dialling:
        give_up_host({i});
        break;
      case HostState::ready:
        act(StopHost{{i}});
        roster_.become({i}, HostState::stopping);
        break;
      case HostState::stopping:
      case HostState::gone:
        break;
    }
  }
  arm(Deadline::stop, now_ + spec_.grace + to_say_goodbye);
  arm(Deadline::notice, now_ + explain_after);
  finish_if_all_gone();
}

void JobMachine::on(const HostStopped& event) {
  switch (phase_) {
    case Phase::closing:
      roster_.become(event.host, HostState::gone);
      verdict_.leftovers += event.leftovers;
      tell_leftovers(event.host, event.leftovers, event.names, event.killed);
      unplaced_are_gone(event.host);
      return finish_if_all_gone();
    case Phase::gathering:
    case Phase::forming:
    case Phase::running:
    case Phase::draining:
    case Phase::cooling:
      if (roster_.at(event.host).state != HostState::stopping)
        return ignore("host stopped", "it was not asked to");
      roster_.left(event.host, now_);
      return consider_change();
    case Phase::done:
      return ignore("host stopped", "it was not asked to");
  }
}

void JobMachine::unplaced_are_gone(HostIndex host) {
  std::erase_if(unplaced_, [this, host](WorkerId id) { return world_.at(id).seat.host == host; });
}

void JobMachine::finish_if_all_gone() {
  if (phase_ != Phase::closing) return;
  if (roster_.count(HostState::gone) < static_cast<int>(roster_.size())) return;
  enter(Phase::done);
  verdict_.exit_code = exit_code_of(verdict_);
  act(Finish{verdict_});
}

void JobMachine::leave_at_once() {
  if (phase_ != Phase::closing) {
    verdict_.kind = Outcome::Kind::user_signal;
    for (const auto& [id, worker] : world_.all()) {
      if (worker.state == WorkerState::finished) continue;
      world_.change(id, [](Worker& it) {
        it.status = ExitStatus::lost("left behind for its agent to end");
        it.departure = Departure::left_behind;
        it.state = WorkerState::finished;
      });
    }
    settle_verdict();
    enter(Phase::closing);
  }
  for (std::uint32_t i = 0; i < roster_.size(); ++i)
    if (roster_.at({i}).state != HostState::gone) give_up_host({i});
  finish_if_all_gone();
}

}  // namespace trainrun::core
