// What the rendezvous tells of its members, what an inspection finds, and what the user asks for by name.
#include "launcher/core/job_machine.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace trainrun::core {
namespace {

constexpr Duration longest_inspection = seconds(15);

}  // namespace

void JobMachine::on(const MemberJoined& event) {
  if (event.generation != world_.generation() || !world_.begun())
    return ignore("member joined", "of another generation");
  if (const auto* worker = world_.member_at(event.rank))
    world_.change(worker->id, [](Worker& it) { it.joined = true; });
}

void JobMachine::on(const WorldJoined& event) {
  horovod_ = event.horovod;  // whose the program is, also of a generation that is ending
  if (event.generation != world_.generation()) return ignore("world joined", "it is another generation");
  // They have met, also where it is ended in the same moment: those who go on have the state.
  for (const auto& [id, worker] : world_.all()) {
    if (!worker.member) continue;
    if (!worker.has_state) newcomers_failed_ = 0;  // one has joined
    world_.change(id, [](Worker& it) { it.has_state = it.joined = true; });
    state_exists_ = state_exists_ || worker.survives();
  }
  if (!world_stands()) return ignore("world joined", "it is ending");
  met_ = state_exists_ = true;
  if (!first_took_) first_took_ = now_ - world_ordered_at_;
  world_elastic_ = event.elastic;
  disarm(Deadline::join);
  unfinished_.reset();
  failed_before_.clear();
  if (phase_ != Phase::running || !elastic()) return;
  if (survivors_stay_) tell_generation();
  consider_change();
}

void JobMachine::on(const WorldBroken& event) {
  if (event.generation != world_.generation() || !world_stands()) return ignore("world broken", "it is over");
  // Without an in-place world the members end by themselves now, and say why.
  if (!in_place_now()) {
    broken_ = event;
    broken_at_ = now_;
    return ignore("world broken", "its members will end, or ask for their next place");
  }
  // Who finishes may close its connections long before it ends.
  if (somebody_finished_well())
    return disrupt({Outcome::Kind::hung, cause::WorldBroken{event.reason, event.culprits},
                    CauseKind::world_broken, true});
  for (const auto rank : event.culprits) {
    const auto* worker = world_.member_at(rank);
    if (worker != nullptr && worker->state == WorkerState::spawned) world_.doom(worker->id, Fate::condemned);
  }
  disrupt({Outcome::Kind::hung, cause::WorldBroken{event.reason, event.culprits}, CauseKind::world_broken,
           false});
}

void JobMachine::on(const MemberWaits& event) {
  const auto* worker = world_.find(event.worker);
  if (worker != nullptr && worker->may_join() && event.generation.value == 0) {
    world_.change(event.worker, [this](Worker& it) {
      it.waits = true;
      it.since = now_;
    });
    watch_newcomers();
    return consider_change();
  }
  if (worker == nullptr || !worker->member || event.generation != begun_generation_)
    return ignore("member waits", "of another generation");
  world_.change(event.worker, [](Worker& it) { it.waits = true; });
  if (phase_ == Phase::cooling && somebody_left_well_) return try_form();
  reform_if_all_wait();
}

void JobMachine::on(const WorldProgressed& event) {
  if (event.generation != world_.generation() || reported_ != world_.generation() || phase_ != Phase::running)
    return ignore("progress", "of another generation, or of one that is ending");
  restarts_.progressed();
}

// Everybody who lives has left the generation's work: the next one may form. Members that have ended are not
// waited for.
void JobMachine::reform_if_all_wait() {
  const auto policy = spec_.elastic.on_failure;
  if (policy != OnFailure::in_place && policy != OnFailure::automatic) return;
  if (!world_stands()) return;
  const auto& counts = world_.counts();
  if (counts.members_that_wait == 0) return met_ ? disarm(Deadline::join) : void();
  const int alive = counts.members_that(WorkerState::ordered) + counts.members_that(WorkerState::spawned);
  const bool ending = somebody_finished_well();
  if (counts.members_that_wait < alive) {
    if (program_ends()) await_others(std::nullopt);
    return await_askers();
  }
  world_elastic_ = true;  // perhaps it never met, but who lives has shown it
  if (announced_ && !broken_) return disrupt(planned_change_);
  // Each time one less asks.
  if (ending && !broken_)
    return disrupt({.kind = Outcome::Kind::unfinished,
                    .what = cause::RankFinished{finished_.value_or(RankRef{})},
                    .cause = CauseKind::rank_finished,
                    .planned = true});
  // Nobody told them to: without a price they could ask for ever.
  cause::WorldBroken broken;
  if (broken_) broken = {broken_->reason, broken_->culprits};
  disrupt({Outcome::Kind::hung, std::move(broken), CauseKind::world_broken, false});
}

// Those that do not ask may be busy, or stuck for ever: a rank that saves a checkpoint, or one that is
// frozen.
void JobMachine::await_askers() {
  if (!met_ || spec_.elastic.hang_timeout || armed_.contains(Deadline::join)) return;
  first_asked_ = now_;
  arm(Deadline::join, now_ + time_to_load().first);
}

void JobMachine::askers_late() {
  std::vector<RankRef> late;
  for (const auto& [id, worker] : world_.all()) {
    if (!worker.member || worker.state != WorkerState::spawned || worker.waits) continue;
    world_.doom(id, Fate::condemned);
    late.push_back(who(worker));
  }
  const auto [waited, limit] = time_to_load();
  const Generation next{world_.generation().value + 1};
  disrupt({.kind = Outcome::Kind::hung,
           .what = cause::MembersMissing{std::move(late), next, waited, limit},
           .cause = CauseKind::member_missing,
           .since = first_asked_});
}

// One that starts anew reads its data first: how long that may take is not what --start-timeout is for. It
// has no limit of its own while --hang-timeout looks after the world.
std::pair<Duration, Limit> JobMachine::time_to_load() const {
  constexpr int factor = 10;
  const auto usual = spec_.start_timeout * factor;
  const auto like_the_first = first_took_.value_or(Duration::zero()) * 2;
  if (like_the_first > usual) return {like_the_first, Limit::twice_the_first_start};
  return {usual, Limit::start_timeout_times_ten};
}

void JobMachine::members_late() {
  if (!world_stands()) return ignore("join deadline", "the world is ending");
  if (met_) return askers_late();
  const auto [time_to_load, why] = this->time_to_load();
  std::vector<RankRef> late;
  bool all_live = true, loading = false;
  auto waited = spec_.start_timeout;
  auto limit = Limit::start_timeout;
  std::optional<Instant> next;
  for (const auto& [id, worker] : world_.all()) {
    if (!worker.member) continue;
    all_live = all_live && worker.state == WorkerState::spawned;
    if (worker.joined || worker.state != WorkerState::spawned) continue;
    const auto until = worker.since + time_to_load;
    if (!worker.has_state && (spec_.elastic.hang_timeout || now_ < until)) {
      loading = true;
      if (!spec_.elastic.hang_timeout) next = std::min(next.value_or(until), until);
      continue;
    }
    if (!worker.has_state) std::tie(waited, limit) = std::pair(time_to_load, why);
    world_.doom(id, Fate::condemned);
    late.push_back(who(worker));
  }
  if (late.empty() && all_live && loading) {
    if (next) arm(Deadline::join, *next);
    return;
  }
  // If all that live are there, and still the world has not met, they wait for one that ended without coming.
  disrupt({.kind = Outcome::Kind::hung,
           .what = cause::MembersMissing{std::move(late), world_.generation(), waited, limit},
           .cause = CauseKind::member_missing});
}

// ---- a world that seems to hang

void JobMachine::on(const RanksAbsent& event) {
  if (event.generation != world_.generation() || phase_ != Phase::running)
    return ignore("ranks absent", "it is another generation, or ending");
  notice::RanksAbsent told{world_.generation(), world_.size(), {}, event.waits_in};
  if (met_ && armed_.contains(Deadline::join)) told.ended_in = first_asked_ + time_to_load().first - now_;
  for (const auto& [worker, last_words] : event.absent) {
    const auto* known = world_.find(worker);
    if (known != nullptr && known->member)
      told.absent.push_back({who(*known), last_words, known->ended_well()});
  }
  if (told.absent.empty()) return ignore("ranks absent", "they have gone");
  tell(told);
}

void JobMachine::on(const WorldSilent& event) {
  if (phase_ != Phase::running || armed_.contains(Deadline::inspect))
    return ignore("silence", "nothing runs, or it is being looked at");
  // Survivors on their way to it are silent, and all that is known of them is of the last one. To end them
  // all would lose what they hold.
  const auto has_come = [](const auto& it) {
    return it.second.member && it.second.has_state && it.second.joined;
  };
  if (armed_.contains(Deadline::join) && !met_ &&
      std::none_of(world_.all().begin(), world_.all().end(), has_come))
    return ignore("silence", "no survivor has come to the world yet, and that has its own time");
  tell(notice::RanksSilent{world_.generation(), event.silence});
  inspection_.begin(event.silence, event.absent);
  for (std::uint32_t i = 0; i < roster_.size(); ++i)
    roster_.change({i}, [](HostEntry& it) { it.inspecting = it.state == HostState::ready; });
  act(Inspect{});
  arm(Deadline::inspect, now_ + longest_inspection);
}

void JobMachine::on(const WorldAlive&) {
  if (!armed_.contains(Deadline::inspect)) return ignore("life", "nobody asked");
  disarm(Deadline::inspect);
  tell(notice::RanksAlive{world_.generation()});
}

void JobMachine::on(const WorkerInspected& event) {
  const auto* worker = world_.find(event.worker);
  if (worker == nullptr || !armed_.contains(Deadline::inspect)) return ignore("inspection", "nobody asked");
  inspection_.found(who(*worker), event.evidence, event.stopped);
}

void JobMachine::on(const InspectionDone& event) {
  roster_.change(event.host, [](HostEntry& it) { it.inspecting = false; });
  if (!armed_.contains(Deadline::inspect)) return ignore("inspection", "nobody asked");
  if (event.odd) {
    inspection_.found(*event.odd);
    tell(notice::RankDiffers{*event.odd});
  }
  if (roster_.counts().inspecting == 0) inspection_over();
}

void JobMachine::inspection_over() {
  for (const auto& it : inspection_.in_order()) tell(it);
  if (phase_ != Phase::running) return;
  cause::Hung hung{.silence = inspection_.silence(), .odd = inspection_.odd()};
  for (const auto id : inspection_.absent())
    if (const auto* worker = world_.find(id); worker != nullptr && worker->survives())
      hung.absent.push_back(who(*worker));
  if (hung.absent.empty() && !met_ && world_.counts().joined > 0)
    for (const auto& [id, worker] : world_.all())
      if (worker.survives() && worker.state == WorkerState::spawned && !worker.joined)
        hung.absent.push_back(who(worker));
  if (!hung.absent.empty()) hung.odd.reset();
  for (const auto& [id, rank] : inspection_.stopped())
    if (const auto* worker = world_.find(id); worker != nullptr && worker->survives())
      hung.stopped.push_back(who(*worker));
  verdict_.why = hung;
  // One that somebody stopped is surely stuck. Without such a one, or one that differs from all others,
  // nobody can tell who makes the others wait. In a world that has not met, those that have come wait for the
  // others.
  if (in_place_now() && survivors_stay_ && !met_) {
    for (const auto& [id, worker] : world_.all())
      if (worker.survives() && !worker.joined) world_.doom(id, Fate::condemned);
  }
  if (in_place_now()) {
    for (const auto& who : hung.stopped) world_.doom(who.worker, Fate::condemned);
    if (hung.stopped.empty())
      for (const auto& who : hung.absent) world_.doom(who.worker, Fate::condemned);
    // What all others have in common, and one does not, is most often that they wait for it.
    const auto* odd = hung.stopped.empty() && hung.odd ? world_.find(hung.odd->who.worker) : nullptr;
    if (odd != nullptr && odd->survives()) world_.doom(odd->id, Fate::condemned);
    const auto& counts = world_.counts();
    if (counts.survivors == counts.members_that(WorkerState::spawned))  // nobody is condemned
      for (const auto& [id, worker] : world_.all())
        if (worker.survives()) world_.doom(id, Fate::condemned);
  }
  disrupt({Outcome::Kind::hung, std::move(hung), CauseKind::hung, false});
}

// ---- by name

void JobMachine::on(const RestartWorld&) {
  if (!may_restart()) return ignore("restart", "nothing runs, or the program is ending");
  state_exists_ = false;  // the user wants it so, and need not be told that nobody has survived
  condemn_members();
  disrupt({Outcome::Kind::worker_failed, cause::RestartAsked{}, CauseKind::asked_for, true});
}

void JobMachine::on(const RestartWorker& event) {
  if (!may_restart(event.rank)) return ignore("restart worker", "it does not run, or the program is ending");
  world_.doom(world_.member_at(event.rank)->id, Fate::condemned);
  disrupt({Outcome::Kind::worker_failed, cause::RestartAsked{event.rank}, CauseKind::asked_for, true});
}

void JobMachine::on(const StopWorker& event) {
  if (!may_restart(event.rank)) return ignore("stop worker", "it does not run, or the program is ending");
  const auto* worker = world_.member_at(event.rank);
  // One beyond the slots of a host that has fewer now has none that could be given up.
  if (const auto host = worker->seat.host; world_.survivors_on(host) <= slots_on(host))
    roster_.change(host, [](HostEntry& it) { ++it.stopped_slots; });
  world_.doom(worker->id, Fate::condemned);
  disrupt({Outcome::Kind::worker_failed, cause::StopAsked{event.rank}, CauseKind::asked_for, true});
}

}  // namespace trainrun::core
