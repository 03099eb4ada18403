// Workers that end: the half of the brain that hears of deaths.
#include "launcher/core/job_machine.h"

#include <algorithm>
#include <csignal>

namespace trainrun::core {

RankRef JobMachine::who(const Worker& worker) const {
  return {worker.seat.rank, named(worker.seat.host), worker.id, worker.pid};
}

RankRef JobMachine::who(const Failure& failure) const {
  return {failure.rank, named(failure.host), failure.worker, failure.pid};
}

std::vector<JobMachine::WorkerView> JobMachine::workers() const {
  std::vector<WorkerView> all;
  for (const auto& [id, worker] : world_.all()) {
    if (!worker.member) continue;
    WorkerView view{id, worker.seat, worker.pid, worker.state, worker.since};
    if (worker.state == WorkerState::spawned && !met_ && world_.counts().joined > 0)
      (worker.joined ? view.waits : view.loads) = true;
    all.push_back(view);
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.seat.rank < b.seat.rank; });
  return all;
}

void JobMachine::on(const WorkerNotStarted& event) {
  switch (phase_) {
    case Phase::forming:
    case Phase::running:
    case Phase::draining:
    case Phase::cooling: {
      const auto* worker = world_.find(event.worker);
      if (worker == nullptr || worker->state != WorkerState::ordered)
        return ignore("worker not started", "its end is known");
      world_.change(event.worker, [&](Worker& it) {
        it.state = WorkerState::finished;
        it.since = now_;
        it.status = event.status;
      });
      if (worker->newcomer) return newcomer_ended(event.worker, {});
      if (!worker->member) return slot_is_free();
      if (!event.status.cancelled())
        world_.failed(event.worker,
                      {event.worker, worker->seat.rank, worker->seat.host, 0, event.status, now_}, {});
      if (phase_ == Phase::cooling) return;
      if (phase_ == Phase::draining || event.status.cancelled()) return after_worker_change();
      return worker_disrupts(event.worker);
    }
    case Phase::gathering:
      return ignore("worker not started", "none was ordered");
    case Phase::closing:
    case Phase::done:
      return ignore("worker not started", "it was given up");
  }
}

void JobMachine::on(const WorkerExited& event) {
  switch (phase_) {
    case Phase::forming:
    case Phase::running:
    case Phase::draining:
    case Phase::cooling: {
      const auto* known = world_.find(event.worker);
      if (known == nullptr || known->state != WorkerState::spawned)
        return ignore("worker exited", "its end is known");
      const auto& worker = *known;
      world_.change(event.worker, [&](Worker& it) {
        it.state = WorkerState::exited;
        it.since = now_;
        it.status = event.status;
        // It had ended before it was heard that it had.
        if (!event.signalled.contains(SIGKILL)) it.fate = std::min(it.fate, Fate::condemned);
        if (event.raised && !event.status.success())
          it.departure = Departure::raised;
        else if (asked_to_end(event))
          it.departure = Departure::after_signal;
      });
      if (worker.newcomer) return newcomer_ended(event.worker, event.last_words);
      if (!worker.member) return slot_is_free();  // it had no place any more, however it ended
      const bool well = worker.ended_well();
      if (well && !finished_) finished_ = who(worker);
      if (worker.fate == Fate::asked_to_leave && (phase_ == Phase::forming || phase_ == Phase::running) &&
          in_place_now() && !(worker.status.success() && program_ends()))
        return disrupt(planned_change_);
      // One that called MPI_Abort has failed before.
      if (!worker.failure && !event.status.success() && !ended_by_us(worker, event)) {
        world_.failed(event.worker,
                      {event.worker, worker.seat.rank, worker.seat.host, worker.pid, event.status, event.at,
                       event.error, event.lost_peer, event.out_of_memory, asked_to_end(event)},
                      event.last_words);
        if (phase_ == Phase::forming || phase_ == Phase::running) return worker_failed(event.worker);
        if (phase_ == Phase::cooling) tell_failed_as_well(worker, event.last_words);
      }
      if (armed_.contains(Deadline::cause) && !cause_may_follow(worker)) return cause_is_known();
      if (phase_ == Phase::draining && then_ == Then::restart) return after_worker_change();
      if (well && (survivors_stay_ || in_place_now())) return finished_well();
      // Those that wait in a world that has not met wait for it in vain.
      if (world_stands() && survivors_stay_ && !met_ && now_ >= world_ordered_at_ + spec_.start_timeout)
        return members_late();
      if (phase_ == Phase::forming && !world_.begun()) enter(Phase::cooling);
      if (phase_ == Phase::cooling) return try_form();
      reform_if_all_wait();
      return;
    }
    case Phase::gathering:
      return ignore("worker exited", "none was ordered");
    case Phase::closing:
      unplaced_.erase(event.worker);
      [[fallthrough]];
    case Phase::done:
      return ignore("worker exited", "it was given up");
  }
}

// Of one that was dismissed: the next world waits for its slot, this one may grow, and a drain waits for its
// end.
void JobMachine::slot_is_free() {
  if (phase_ == Phase::cooling || phase_ == Phase::running) return consider_change();
  if (phase_ == Phase::draining) after_worker_change();
}

// Nobody can tell by the clock who failed first: peers may notice a death before its agent does, and end
// sooner than one that still clears up. Those that say that they lost a peer are not believed to be the cause
// as long as it may follow.
void JobMachine::worker_failed(WorkerId id) {
  const auto& worker = world_.at(id);
  // They do not follow it.
  const bool others_go_on =
      in_place_now() || survivors_stay_ || spec_.elastic.on_failure == OnFailure::ignore;
  if (!worker.failure->lost_peer || !world_stands() || others_go_on || !cause_may_follow(worker))
    return worker_disrupts(id);
  if (!armed_.contains(Deadline::cause)) arm(Deadline::cause, now_ + dies_later);
}

// Somebody else lives who has not failed.
bool JobMachine::cause_may_follow(const Worker& victim) const {
  const bool itself = victim.member && victim.alive() && !victim.failure;
  return world_.counts().alive_without_failure > (itself ? 1 : 0);
}

void JobMachine::cause_is_known() {
  const auto all = failures();
  worker_disrupts(all[first_cause(all)].worker);
}

void JobMachine::worker_disrupts(WorkerId id) {
  const auto& worker = world_.at(id);
  disarm(Deadline::cause);
  disrupt({Outcome::Kind::worker_failed,
           cause::RankFailed{who(worker), worker.status,
                             worker.failure ? worker.failure->last_words : std::string{}},
           CauseKind::rank_failed, false});
}

// Before it ended, by what its agent has seen.
bool JobMachine::asked_to_end(const WorkerExited& event) const {
  return event.signalled.contains(ending_.drain_signal()) || event.signalled.contains(SIGTERM) ||
         event.signalled.contains(SIGKILL);
}

// A death by a signal is ours if that signal was sent to it, any other end if it had been asked to end: the
// agent knows the order, and no clock is needed.
bool JobMachine::ended_by_us(const Worker& worker, const WorkerExited& event) const {
  if (!worker.condemned()) return false;
  if (const int number = event.status.signal(); number != 0) return event.signalled.contains(number);
  return asked_to_end(event);
}

void JobMachine::on(const WorkerFinished& event) {
  switch (phase_) {
    case Phase::forming:
    case Phase::running:
    case Phase::draining:
    case Phase::cooling: {
      const auto* known = world_.find(event.worker);
      if (known == nullptr || known->state != WorkerState::exited)
        return ignore("worker finished", "its end is known");
      const auto& worker = *known;
      world_.change(event.worker, [&](Worker& it) {
        it.state = WorkerState::finished;
        if (it.failure) it.failure->lost_peer = event.lost_peer;
      });
      if (worker.failure && !worker.member) {
        for (auto& failure : failed_before_)
          if (failure.worker == event.worker) failure.lost_peer = event.lost_peer;
      }
      if (last_cause_ && last_cause_->worker == event.worker) last_cause_->lost_peer = event.lost_peer;
      // What it printed last tells more than what had arrived.
      if (armed_.contains(Deadline::cause) && worker.failure && !event.lost_peer) return cause_is_known();
      if (!worker.member) {
        world_.forget(event.worker);
        release_unused();
        return phase_ == Phase::cooling ? try_form() : void();  // its host may go now
      }
      if (phase_ == Phase::cooling) return try_form();  // its host may go now
      return after_worker_change();
    }
    case Phase::gathering:
      return ignore("worker finished", "none was ordered");
    case Phase::closing:
    case Phase::done:
      return ignore("worker finished", "it was given up");
  }
}

void JobMachine::after_worker_change() {
  if (phase_ == Phase::forming && world_.begun() && world_.counts().members_that(WorkerState::ordered) == 0)
    world_runs();
  if (phase_ == Phase::draining && then_ == Then::restart) return drain_step();
  if ((phase_ != Phase::draining && !world_stands()) || !world_.all_members(WorkerState::finished)) return;
  if (phase_ != Phase::draining) count_ignored_exits();
  settle_verdict();
  close();
}

// --on-failure ignore: a program that lost a rank may have done its work all the same, but a rank that says
// by its exit code that it failed is heard.
void JobMachine::count_ignored_exits() {
  const auto& failed = world_.failed();
  if (std::any_of(failed.begin(), failed.end(), [this](WorkerId id) {
        return world_.at(id).failure->status.kind == ExitStatus::Kind::exited;
      }))
    verdict_.kind = Outcome::Kind::worker_failed;
}

}  // namespace trainrun::core
