// What follows from a failure or a planned change: who ends, who stays, who is to blame.
#include "launcher/core/job_machine.h"

#include <algorithm>
#include <csignal>

namespace trainrun::core {
namespace {

// When one of them is gone, and so many are left.
Follows what_others_do(int left, int least) {
  if (left == 0) return Follows::all_start_anew;
  return left < least ? Follows::others_wait : Follows::others_go_on;
}

}  // namespace

bool JobMachine::in_place_now() const {
  switch (spec_.elastic.on_failure) {
    case OnFailure::abort:
    case OnFailure::ignore:
    case OnFailure::restart_world:
      return false;
    case OnFailure::automatic:
      return world_elastic_;
    case OnFailure::in_place:
      // A program that never came to the rendezvous will not come for its next place either.
      return world_elastic_ || world_.counts().took_part > 0;
  }
  return false;
}

// Those for whom the next world has a place; who may hold state first, and in the old order. Hosts that are
// not listed any more count when nobody else survives, or nobody else holds state: the list may be wrong, and
// what they hold would be lost.
std::vector<const Worker*> JobMachine::staying() const {
  std::vector<const Worker*> on_listed, all;
  if (world_.counts().survivors == 0) return all;
  const auto beyond = beyond_slots();
  const auto kept = kept_ones_serve(false) ? kept_hosts() : std::set<HostIndex>{};
  for (const auto& [id, worker] : world_.all()) {
    if (!worker.survives() || roster_.at(worker.seat.host).leaving || beyond.contains(id)) continue;
    all.push_back(&worker);
    const auto host = worker.seat.host;
    if (usable(host, {host}) || kept.contains(host)) on_listed.push_back(&worker);
  }
  const auto holds = [](const std::vector<const Worker*>& workers) {
    return std::any_of(workers.begin(), workers.end(),
                       [](const Worker* worker) { return worker->has_state; });
  };
  auto& some = on_listed.empty() || (!holds(on_listed) && holds(all)) ? all : on_listed;
  std::sort(some.begin(), some.end(), [](const Worker* a, const Worker* b) {
    return std::pair(!a->has_state, a->seat.rank) < std::pair(!b->has_state, b->seat.rank);
  });
  return std::move(some);
}

// In forming and running alone: a world that is drained already is not disrupted again.
void JobMachine::disrupt(const Disruption& disruption) {
  if (armed_.contains(Deadline::cause)) {
    // Of what comes while a failure waits for its cause only a lost host can be that.
    if (disruption.kind != Outcome::Kind::host_lost || disruption.planned) return cause_is_known();
    disarm(Deadline::cause);
  }
  if (may_go_on_without_it(disruption)) return go_on_without_it(disruption);
  if (!elastic()) return end_because(disruption.kind);
  if (horovod_ && in_place_now()) {  // within hvd.init of a world that is over, where nobody can tell them
    for (const auto& [id, worker] : world_.all())
      if (worker.member && worker.alive() && !worker.has_state) world_.doom(id, Fate::condemned);
  }
  const bool survivors = world_.counts().survivors > 0;
  const bool in_place = in_place_now();
  if (program_ends()) return survivors ? finish_without(disruption) : finish_alone(disruption);
  using Decision = RestartPolicy::Decision;
  auto question = question_of(disruption);
  question.free = spared_ = newcomers_failed(disruption);
  const auto decision = restarts_.decide(question, now_);
  restarts_.apply(decision, question, now_);
  const bool as_well = decision == Decision::same_restart;
  if (decision == Decision::restart || decision == Decision::out_of_restarts) {
    // Of a world that never met the failure before it may yet be the reason for the end.
    if (!unfinished_ || (world_.begun() && decision == Decision::out_of_restarts)) last_cause_.reset();
    if (decision == Decision::out_of_restarts) {
      verdict_.out_of_restarts = true;
      verdict_.why = disruption.what;
      return end_because(disruption.kind);
    }
    ++verdict_.restarts;
    restart_begins(disruption.since);
  }
  if ((!as_well && !spared_) || disruption.kind == Outcome::Kind::host_lost) count_cause(disruption);
  if (spared_) restart_begins(disruption.since);
  blaming_ = !disruption.planned && !as_well;
  if (!as_well) changed_by_ = disruption.what;  // else the first failure stays the first
  survivors_stay_ = in_place && survivors;
  if (in_place && !survivors) tell_that_state_is_lost();
  if (spared_) {
    go_on_without_newcomers(disruption);
  } else if (!disruption.planned) {
    tell(notice::Restarting{world_.generation(), disruption.what, as_well, what_follows(disruption),
                            as_well ? verdict_.restarts : restarts_.spent(), restarts_.limit().count,
                            restarts_.limit().window, was_up()});
  } else if (!was_up()) {
    tell(notice::GenerationSkipped{world_.generation(), disruption.what});
  }
  if (!survivors_stay_) {
    condemn_members();
    world_elastic_ = false;
  }
  begin_draining(disruption);
}

// --on-failure ignore. A rank that called MPI_Abort means all of them, and one that could not be started
// none.
bool JobMachine::may_go_on_without_it(const Disruption& disruption) const {
  if (spec_.elastic.on_failure != OnFailure::ignore || !world_stands()) return false;
  const auto* failed = std::get_if<cause::RankFailed>(&disruption.what);
  if (disruption.kind != Outcome::Kind::host_lost && failed == nullptr) return false;
  if (failed != nullptr && (failed->status.kind == ExitStatus::Kind::aborted ||
                            failed->status.kind == ExitStatus::Kind::not_started))
    return false;
  if (world_.counts().alive_without_failure > 0) return true;
  return std::any_of(world_.all().begin(), world_.all().end(), [](const auto& it) {
    const auto& worker = it.second;
    return worker.member && !worker.failure && worker.status.success();
  });
}

void JobMachine::go_on_without_it(const Disruption& disruption) {
  verdict_.why.reset();
  if (disruption.kind == Outcome::Kind::host_lost) verdict_.also_lost.push_back(disruption.host);
  tell(notice::FailureIgnored{disruption.what, world_.counts().alive_without_failure, world_.size()});
  after_worker_change();
}

void JobMachine::condemn_members() {
  for (const auto& [id, worker] : world_.all()) {
    if (!worker.member && !worker.newcomer) continue;
    world_.doom(id, Fate::condemned);
    world_.change(id, [](Worker& it) { it.newcomer = false; });
  }
}

RestartPolicy::Question JobMachine::question_of(const Disruption& disruption) const {
  RestartPolicy::Question question{.planned = disruption.planned};
  const bool host_lost = disruption.kind == Outcome::Kind::host_lost;
  if (host_lost) question.lost = disruption.host;
  if (host_lost || disruption.kind == Outcome::Kind::worker_failed)
    question.failed.assign(world_.failed().begin(), world_.failed().end());
  return question;
}

// What a host does that nobody hears of is lost, from its last sign of life on.
void JobMachine::restart_begins(Instant since) {
  restarts_.begin(since == Instant{} ? now_ : std::clamp(since, began_, now_));
  for (const auto& [id, worker] : world_.all()) {
    if (!worker.member || roster_.at(worker.seat.host).state != HostState::ready) continue;
    if (worker.state != WorkerState::finished && worker.state != WorkerState::exited) restarts_.cover(id);
    restarts_.cover(worker.seat.host);
  }
}

Follows JobMachine::what_follows(const Disruption& disruption) const {
  if (disruption.kind == Outcome::Kind::port_refused) return Follows::tries_again;
  if (!survivors_stay_) return Follows::all_start_anew;
  const bool all_live = world_.counts().survivors == world_.counts().members;
  return all_live ? Follows::all_go_on : what_others_do(world_.counts().survivors, least_size());
}

// One of those that live on while the next world is waited for.
void JobMachine::tell_failed_as_well(const Worker& worker, const std::string& last_words) {
  tell(notice::Restarting{world_.generation(), cause::RankFailed{who(worker), worker.status, last_words},
                          true, what_others_do(world_.counts().survivors, least_size()), verdict_.restarts,
                          restarts_.limit().count, restarts_.limit().window});
}

// A number that is skipped must not look like a line that was lost.
bool JobMachine::was_up() const { return reported_ == world_.generation(); }

void JobMachine::count_cause(const Disruption& disruption) {
  const auto cause = disruption.cause;
  auto& causes = disruption.planned ? verdict_.changes : verdict_.causes;
  const auto it =
      std::find_if(causes.begin(), causes.end(), [&](const auto& one) { return one.first == cause; });
  if (it == causes.end())
    causes.emplace_back(cause, 1);
  else
    ++it->second;
}

void JobMachine::begin_draining(const Disruption& disruption) {
  disruption_ = disruption;
  then_ = Then::restart;
  ending_.drain(survivors_stay_ ? SIGKILL : disruption.planned ? spec_.elastic.leave_signal : SIGTERM, now_);
  swept_ = false;
  disarm(Deadline::leave);
  enter(Phase::draining);
  // Ranks leave a world that changes as planned by themselves, unless one of them dies in it.
  const auto& counts = world_.counts();
  const bool all_there = counts.members_that(WorkerState::ordered) +
                             counts.members_that(WorkerState::spawned) + counts.ended_well ==
                         counts.members;
  if (world_.begun())
    act(EndGeneration{.generation = world_.generation(),
                      .culprit = disruption.planned ? std::nullopt : culprit(),
                      .cause = disruption.what,
                      .free_survivors = survivors_stay_ && !(disruption.planned && all_there)});
  if (!survivors_stay_) {
    act(SignalWorkers{ending_.drain_signal(), false});
    arm(Deadline::grace, now_ + spec_.grace);
  } else {
    std::vector<WorkerId> doomed;
    bool starting = false;
    for (const auto& [id, worker] : world_.all()) {
      if (!worker.member || !worker.awaited()) continue;
      starting = starting || !worker.condemned();
      if (!worker.condemned()) continue;
      doomed.push_back(id);
      world_.doom(id, Fate::killed);
    }
    if (!doomed.empty()) {
      act(SignalWorkers{SIGKILL, false, std::move(doomed)});
      arm(Deadline::kill, now_ + after_kill);
    }
    if (starting) arm(Deadline::grace, now_ + spec_.grace);
  }
  after_worker_change();
}

// In place: the world waits for members whose start was ordered when another failed. Who has not said by now
// that it runs is not waited for, and ended.
void JobMachine::kill_late_starters(Instant due) {
  std::vector<WorkerId> late;
  std::optional<Instant> again;
  for (const auto& [id, worker] : world_.all()) {
    if (!worker.member || worker.condemned() || worker.state != WorkerState::ordered) continue;
    if (const auto come = news_come(worker.seat.host, due)) {
      again = std::min(again.value_or(*come), *come);
      continue;
    }
    world_.doom(id, Fate::killed);
    late.push_back(id);
  }
  if (again) put_off(Deadline::grace, due, *again);
  if (late.empty()) return;  // those that got SIGKILL have their own deadline
  act(SignalWorkers{SIGKILL, false, std::move(late)});
  arm(Deadline::kill, now_ + after_kill);
}

void JobMachine::drain_step() {
  if (survivors_stay_) {
    // One that was ordered is awaited: it lives, and then survives, or it does not.
    if (world_.counts().awaited_members > 0) return;
    return after_drain();
  }
  if (world_.counts().alive > 0) return;
  // Daemons of the dead hold their pipes, their ports and their GPUs: they go before the next generation
  // starts.
  if (!std::exchange(swept_, true)) {
    for (std::uint32_t i = 0; i < roster_.size(); ++i) {
      if (roster_.at({i}).state != HostState::ready) continue;
      roster_.change({i}, [](HostEntry& it) { it.sweeping = true; });
      act(Sweep{{i}, world_.generation(), {}});
    }
    disarm(Deadline::grace);
    disarm(Deadline::kill);
    arm(Deadline::sweep, now_ + spec_.grace + after_kill);
  }
  if (roster_.counts().sweeping > 0) return;
  if (world_.all_members(WorkerState::finished)) after_drain();
}

void JobMachine::on(const HostSwept& event) {
  if (!roster_.at(event.host).sweeping || event.generation != world_.generation())
    return ignore("host swept", "it was not asked to, or was given up");
  roster_.change(event.host, [](HostEntry& it) { it.sweeping = false; });
  verdict_.leftovers += event.leftovers;
  tell_leftovers(event.host, event.leftovers, {}, event.killed);
  if (phase_ == Phase::draining) after_worker_change();
}

void JobMachine::after_drain() {
  const bool culprit_rests = blaming_ && blame();
  // Who fails as well in a restart that is paid is not blamed for it, but whoever dies later is its victim.
  if (const auto all = failures(); !all.empty() && !all[first_cause(all)].lost_peer)
    last_cause_ = all[first_cause(all)];
  somebody_left_well_ = survivors_stay_ && (somebody_left_well_ || somebody_finished_well());
  if (!unfinished_ || unfinished_->planned)
    if (auto why = why_unfinished()) unfinished_ = std::move(why);
  // What the dead left on hosts where others live on: it goes without anybody waiting for it.
  std::map<HostIndex, std::vector<WorkerId>> dead;
  std::vector<WorkerId> gone;
  for (const auto& [id, worker] : world_.all()) {
    if (!worker.member || worker.survives()) continue;
    if (survivors_stay_ && roster_.at(worker.seat.host).state == HostState::ready)
      dead[worker.seat.host].push_back(id);
    if (worker.failure) failed_before_.push_back(*worker.failure);
    if (!worker.status.success()) had_not_finished_.push_back(who(worker));
    gone.push_back(id);
  }
  for (const auto id : gone) leave_world(id);
  for (auto& [host, ids] : dead) act(Sweep{host, std::nullopt, std::move(ids)});
  dismiss_leavers();
  await_leavers();
  world_.end();
  enter(Phase::cooling);
  // Without the culprit there is no crash loop to slow down, unless others failed as it did.
  if (blaming_ && (!culprit_rests || roster_.ledger().several_rested_lately(now_)) && !spared_)
    back_off(!gone.empty());
  const bool enough_stay = survivors_stay_ && static_cast<int>(staying().size()) >= least_size();
  if (const auto until = restarts_.waived_until();
      !blaming_ && !disruption_.planned && !enough_stay && until > now_) {
    // Those that did not have to wait, as back_off() has it, have failed as well since.
    tell(notice::BackingOff{until - now_, false});
    arm(Deadline::backoff, until);
  }
  try_form();
}

// Who comes for the culprit waits, and the others with it where they are too few; or where nobody is gone,
// and they alone are what fails again and again.
void JobMachine::back_off(bool somebody_gone) {
  const auto wait = restarts_.backoff();
  if (wait == Duration::zero()) return;
  // The ranks of a lost host may have left before.
  const bool is_gone = somebody_gone || disruption_.cause == CauseKind::rank_failed ||
                       disruption_.cause == CauseKind::host_lost;
  const bool others_go_on = is_gone && survivors_stay_ && !somebody_left_well_ &&
                            (grows_later() || horovod_) && static_cast<int>(staying().size()) >= least_size();
  tell(notice::BackingOff{wait, others_go_on});
  if (!others_go_on) return arm(Deadline::backoff, now_ + wait);
  newcomers_from_ = now_ + wait;
  restarts_.waive(newcomers_from_);
}

// Of members that do not live any more; nothing when all of them have finished well.
std::optional<JobMachine::Disruption> JobMachine::why_unfinished() {
  std::vector<Failure> failures;
  std::optional<Disruption> why;
  for (const auto& [id, worker] : world_.all()) {
    if (!worker.member || worker.survives()) continue;
    if (worker.failure) failures.push_back(*worker.failure);
    if (worker.status.success() && !worker.condemned()) continue;
    if (!why) why = disruption_;
    if (worker.status.kind == ExitStatus::Kind::lost && !disruption_.planned)
      why = Disruption{Outcome::Kind::host_lost, cause::LinkLost{worker.status.reason}, CauseKind::host_lost,
                       false, worker.seat.host};
  }
  if (failures.empty()) return why;
  last_cause_ = failures[first_cause(failures)];
  return Disruption{Outcome::Kind::worker_failed, cause::RankFailed{who(*last_cause_), last_cause_->status},
                    CauseKind::rank_failed, false};
}

// The first cause alone is blamed: those that lost a peer are its victims. True when its host rests for it,
// and the others do without.
bool JobMachine::blame() {
  const auto all = failures();
  if (all.empty()) return false;
  const auto& cause = all[first_cause(all)];
  last_cause_ = cause;
  changed_by_ = cause::RankFailed{who(cause), cause.status};
  if (cause.lost_peer) return false;
  auto rest = rest_of(cause.host);
  if (!rest) return false;
  tell(std::move(*rest));
  return true;
}

// One of its ranks has failed: how the host rests for it, if it does.
std::optional<notice::HostRests> JobMachine::rest_of(HostIndex host) {
  const bool rested = roster_.ledger().rested_lately(host, now_);
  if (!roster_.worker_failed(host, now_)) return std::nullopt;
  if (forgiven().contains(host)) return std::nullopt;  // the smallest world cannot do without it
  const auto until = roster_.ledger().rests_until(host, now_);
  return notice::HostRests{named(host), until ? *until - now_ : Duration::zero(), rested,
                           HostLedger::tolerated + 1, HostLedger::window};
}

}  // namespace trainrun::core
