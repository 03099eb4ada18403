// The end of an in-place program: its ranks leave their last world one after the other. Once one has
// finished, nobody is started any more. Those that are left finish as well, or say by asking for another
// place that they need one; none is made around a rank that did not ask, for it may be about to finish
// (decision 0033).
#include <algorithm>
#include <utility>

#include "launcher/core/job_machine.h"

namespace trainrun::core {

bool JobMachine::program_ends() const {
  return elastic() && (survivors_stay_ || in_place_now()) &&
         (somebody_left_well_ || somebody_finished_well());
}

void JobMachine::finished_well() {
  review_newcomers();
  switch (phase_) {
    case Phase::forming:
    case Phase::running:
      // A world that has not met never will; in one that has, the others go on until one of them says
      // otherwise.
      if (world_.begun() && survivors_stay_ && !met_)
        return disrupt({.kind = Outcome::Kind::unfinished,
                        .what = cause::RankFinished{finished_.value_or(RankRef{})},
                        .cause = CauseKind::rank_finished,
                        .planned = true});
      if (world_.begun()) return reform_if_all_wait();
      somebody_left_well_ = survivors_stay_;
      enter(Phase::cooling);  // the world that was planned has lost one of its members
      return try_form();
    case Phase::cooling:
      somebody_left_well_ = survivors_stay_;
      return try_form();
    case Phase::gathering:
    case Phase::draining:
    case Phase::closing:
    case Phase::done:
      return;
  }
}

// A member failed, was lost, or asks for another world when some have finished. That costs nothing before it
// is known whether the others need one.
void JobMachine::finish_without(const Disruption& disruption) {
  const bool all_well = world_.counts().finished_badly == 0;
  const auto* lost = std::get_if<cause::HostLost>(&disruption.what);
  if (lost != nullptr && all_well) {  // whoever was there had finished
    if (!disruption.planned) tell(notice::HostLost{lost->host, lost->reason, false, true});
    return after_worker_change();
  }
  if (!unfinished_) last_cause_.reset();
  if (!disruption.planned && !owed_) owed_ = disruption;
  blaming_ = false;
  survivors_stay_ = somebody_left_well_ = true;
  changed_by_ = disruption.what;
  begin_draining(disruption);
}

// Nobody is left who has the state, and a new world would start over.
void JobMachine::finish_alone(const Disruption& disruption) {
  disruption_ = disruption;
  if (disruption.planned) return nobody_is_left();
  if (disruption.kind == Outcome::Kind::host_lost) verdict_.host = disruption.host;
  if (disruption.kind != Outcome::Kind::worker_failed) verdict_.why = disruption.what;
  end_because(disruption.kind);
}

// In cooling. Who asks lives and needs another world; whoever else lives may be about to finish.
bool JobMachine::others_have_asked() {
  if (world_.counts().survivors == world_.counts().survivors_that_wait) {
    disarm(Deadline::finish);
    return true;
  }
  await_others(owed_ ? std::optional(owed_->what) : std::nullopt);
  return false;
}

void JobMachine::await_others(const std::optional<Cause>& cause) {
  if (armed_.contains(Deadline::finish)) return;
  if (!finish_by_) {
    finish_by_ = now_ + spec_.start_timeout;
    if (finished_) tell(notice::Finishing{*finished_, cause, world_.counts().survivors, spec_.start_timeout});
  }
  arm(Deadline::finish, std::max(now_, *finish_by_));
}

// All that live have asked. They get a world if they are enough, somebody among them has the state, and what
// failed can be paid for; else the job is over.
bool JobMachine::may_go_on_without() {
  for (const auto& [id, worker] : world_.all())
    if (worker.survives() && worker.fate == Fate::asked_to_leave) dismiss(id);  // it has no place
  await_leavers();
  const auto some = staying();
  const int least = least_size();
  const bool state =
      std::any_of(some.begin(), some.end(), [](const Worker* worker) { return worker->has_state; });
  const bool too_few = static_cast<int>(some.size()) < least;
  if ((state_exists_ && !state) || too_few) {
    end_unfinished(too_few ? least : 0);
    return false;
  }
  const auto owed = std::exchange(owed_, std::nullopt);
  if (!owed) {
    count_cause({.cause = CauseKind::rank_finished, .planned = true});
    return true;
  }
  if (!restarts_.spend(now_)) {
    verdict_.out_of_restarts = true;
    end_unfinished();
    return false;
  }
  ++verdict_.restarts;
  restart_begins(owed->since);
  count_cause(*owed);
  tell(notice::Restarting{world_.generation(), owed->what, false, Follows::others_go_on, restarts_.spent(),
                          restarts_.limit().count, restarts_.limit().window, was_up()});
  return true;
}

// Those that are left did not finish, and nothing can be done for them. What failed before is to blame.
void JobMachine::end_unfinished(int least) {
  auto why = unfinished_ && !unfinished_->planned ? unfinished_ : why_unfinished();
  cause::RankFinished unfinished{finished_.value_or(RankRef{}), had_not_finished_, least};
  for (const auto& [id, worker] : world_.all())
    if (worker.member && (worker.alive() || !worker.status.success()))
      unfinished.unfinished.push_back(who(worker));
  verdict_.unfinished = world_.counts().survivors;
  if (!why || why->planned)
    why = Disruption{.kind = Outcome::Kind::unfinished, .what = std::move(unfinished), .planned = true};
  if (why->kind == Outcome::Kind::host_lost) verdict_.host = why->host;
  verdict_.why = why->what;
  end_because(why->kind);
}

// Members have finished, and nobody lives who was to go on.
void JobMachine::nobody_is_left() {
  if (unfinished_ || why_unfinished() || world_.counts().alive > 0) return end_unfinished();
  end_because(Outcome::Kind::success);
}

}  // namespace trainrun::core
