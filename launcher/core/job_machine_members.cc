// What the rendezvous tells of its members, what an inspection finds, and what the user asks for by name.
#include "launcher/core/job_machine.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace trainrun::core {
namespace {

constexpr Duration longest_inspection = seconds(15);

}  // namespace

const JobMachine::Worker* JobMachine::member_at(Rank rank) const {
  for (const auto& [id, worker] : workers_)
    if (worker.member && worker.seat.rank == rank) return &worker;
  return nullptr;
}

JobMachine::Worker* JobMachine::member_at(Rank rank) {
  return const_cast<Worker*>(std::as_const(*this).member_at(rank));
}

void JobMachine::on(const MemberJoined& event) {
  if (event.generation != world_.generation || !begun_)
    return ignore("member joined", "of another generation");
  if (auto* worker = member_at(event.rank)) worker->joined = true;
}

void JobMachine::on(const WorldJoined& event) {
  if (event.generation != world_.generation || !world_stands())
    return ignore("world joined", "it is another generation, or ending");
  met_ = state_exists_ = true;
  if (!first_took_) first_took_ = now_ - world_ordered_at_;
  world_elastic_ = event.elastic;
  horovod_ = event.horovod;
  disarm(Deadline::join);
  unfinished_.reset();
  failed_before_.clear();
  for (auto& [id, worker] : workers_)
    if (worker.member) worker.seasoned = worker.joined = true;
  if (phase_ == Phase::running && survivors_stay_) {
    tell_generation();
    consider_change();
  }
}

void JobMachine::on(const WorldBroken& event) {
  if (event.generation != world_.generation || !world_stands()) return ignore("world broken", "it is over");
  // Without an in-place world the members end by themselves now, and say why.
  if (!in_place_now()) {
    broken_ = event.reason;
    return ignore("world broken", "its members will end, or ask for their next place");
  }
  // Who finishes may close its connections long before it ends.
  if (somebody_finished_well())
    return trouble({Outcome::Kind::hung, cause::WorldBroken{event.reason}, CauseKind::world_broken, true});
  for (const auto rank : event.culprits) {
    auto* worker = member_at(rank);
    if (worker != nullptr && worker->state == WorkerState::spawned) worker->condemned = true;
  }
  trouble({Outcome::Kind::hung, cause::WorldBroken{event.reason}, CauseKind::world_broken, false});
}

void JobMachine::on(const MemberWaits& event) {
  const auto it = workers_.find(event.worker);
  if (it == workers_.end() || !it->second.member || event.generation != begun_generation_)
    return ignore("member waits", "of another generation");
  it->second.waits = true;
  if (phase_ == Phase::cooling && somebody_left_well_) return try_form();
  reform_if_all_wait();
}

void JobMachine::on(const WorldProgressed& event) {
  if (event.generation != world_.generation || told_ != world_.generation || phase_ != Phase::running)
    return ignore("progress", "of another generation, or of one that is ending");
  budget_.progressed();
}

// Everybody who lives has left the generation's work: the next one may form. Members that have ended are not
// waited for.
void JobMachine::reform_if_all_wait() {
  const auto policy = spec_.elastic.on_failure;
  if (policy != OnFailure::in_place && policy != OnFailure::automatic) return;
  if (!world_stands()) return;
  bool any = false, all_wait = true;
  for (const auto& [id, worker] : workers_) {
    const bool alive = worker.state == WorkerState::ordered || worker.state == WorkerState::spawned;
    if (!worker.member || !alive) continue;
    (worker.waits ? any : all_wait) = worker.waits;
  }
  if (!any) return;
  const bool ending = somebody_finished_well();
  if (!all_wait) return program_ends() ? await_others(std::nullopt) : void();
  world_elastic_ = true;  // perhaps it never met, but who lives has shown it
  if (announced_ && !broken_) return trouble(planned_change_);
  // Each time one less asks.
  if (ending && !broken_)
    return trouble({.kind = Outcome::Kind::unfinished,
                    .what = cause::RankFinished{finished_.value_or(RankRef{})},
                    .cause = CauseKind::rank_finished,
                    .planned = true});
  // Nobody told them to: without a price they could ask for ever.
  trouble({Outcome::Kind::hung, cause::WorldBroken{broken_}, CauseKind::world_broken, false});
}

// One that starts anew reads its data first: how long that may take is not what --start-timeout is for. It
// has no limit of its own while --hang-timeout looks after the world.
std::pair<Duration, Limit> JobMachine::time_to_load() const {
  constexpr int patience = 10;
  const auto usual = spec_.start_timeout * patience;
  const auto like_the_first = first_took_.value_or(Duration::zero()) * 2;
  if (like_the_first > usual) return {like_the_first, Limit::twice_the_first_start};
  return {usual, Limit::start_timeout_times_ten};
}

void JobMachine::members_late() {
  if (!world_stands()) return ignore("join deadline", "the world is ending");
  const auto [time_to_load, why] = this->time_to_load();
  std::vector<RankRef> late;
  bool all_live = true, loading = false;
  auto waited = spec_.start_timeout;
  auto limit = Limit::start_timeout;
  std::optional<Instant> next;
  for (auto& [id, worker] : workers_) {
    if (!worker.member) continue;
    all_live = all_live && worker.state == WorkerState::spawned;
    if (worker.joined || worker.state != WorkerState::spawned) continue;
    const auto until = worker.since + time_to_load;
    if (!worker.seasoned && (spec_.elastic.hang_timeout || now_ < until)) {
      loading = true;
      if (!spec_.elastic.hang_timeout) next = std::min(next.value_or(until), until);
      continue;
    }
    if (!worker.seasoned) std::tie(waited, limit) = std::pair(time_to_load, why);
    worker.condemned = true;
    late.push_back(who(id, worker));
  }
  if (late.empty() && all_live && loading) {
    if (next) arm(Deadline::join, *next);
    return;
  }
  // If all that live are there, and still the world has not met, they wait for one that ended without coming.
  trouble({.kind = Outcome::Kind::hung,
           .what = cause::MembersMissing{std::move(late), world_.generation, waited, limit},
           .cause = CauseKind::member_missing});
}

// ---- a world that seems to hang

void JobMachine::on(const RanksAbsent& event) {
  if (event.generation != world_.generation || phase_ != Phase::running)
    return ignore("ranks absent", "it is another generation, or ending");
  notice::RanksAbsent told{world_.generation, static_cast<int>(world_.seats.size()), {}, event.waits_in};
  for (const auto& [worker, last_words] : event.absent) {
    const auto it = workers_.find(worker);
    if (it == workers_.end() || !it->second.member) continue;
    told.absent.push_back(
        {{it->second.seat.rank, named(it->second.seat.host), worker, it->second.pid}, last_words});
  }
  if (told.absent.empty()) return ignore("ranks absent", "they have gone");
  tell(told);
}

void JobMachine::on(const WorldSilent& event) {
  if (phase_ != Phase::running || armed_.contains(Deadline::inspect))
    return ignore("silence", "nothing runs, or it is being looked at");
  tell(notice::RanksSilent{world_.generation, event.silence});
  silence_ = event.silence;
  evidence_.clear();
  stopped_workers_.clear();
  for (auto& host : hosts_) host.inspecting = host.state == HostState::ready;
  act(Inspect{});
  arm(Deadline::inspect, now_ + longest_inspection);
}

void JobMachine::on(const WorldAlive&) {
  if (!armed_.contains(Deadline::inspect)) return ignore("life", "nobody asked");
  disarm(Deadline::inspect);
  tell(notice::RanksAlive{world_.generation});
}

void JobMachine::on(const WorkerInspected& event) {
  const auto* seat = seat_of(event.worker);
  if (seat == nullptr || !armed_.contains(Deadline::inspect)) return ignore("inspection", "nobody asked");
  evidence_.push_back(
      {{seat->rank, named(seat->host), event.worker, workers_.at(event.worker).pid}, event.evidence});
  if (event.stopped) stopped_workers_.insert(event.worker);
}

void JobMachine::on(const InspectionDone& event) {
  hosts_.at(event.host.value).inspecting = false;
  if (!armed_.contains(Deadline::inspect)) return ignore("inspection", "nobody asked");
  if (std::none_of(hosts_.begin(), hosts_.end(), [](const auto& host) { return host.inspecting; }))
    inspection_over();
}

void JobMachine::inspection_over() {
  disarm(Deadline::inspect);
  std::sort(evidence_.begin(), evidence_.end(),
            [](const auto& a, const auto& b) { return a.who.rank < b.who.rank; });
  for (const auto& it : evidence_) tell(it);
  if (phase_ != Phase::running) return;
  cause::Hung hung{silence_};
  for (const auto& [id, worker] : workers_)
    if (survives(worker) && stopped_workers_.contains(id)) hung.stopped.push_back(who(id, worker));
  verdict_.why = hung;
  // One that somebody stopped is surely stuck; without such a one nobody can tell who makes the others wait.
  // In a world that has not met, those that have come wait for the others.
  if (in_place_now() && survivors_stay_ && !met_) {
    for (auto& [id, worker] : workers_)
      if (survives(worker) && !worker.joined) worker.condemned = true;
  }
  if (in_place_now()) {
    bool any = std::any_of(workers_.begin(), workers_.end(), [](const auto& it) {
      return it.second.member && it.second.condemned && it.second.state == WorkerState::spawned;
    });
    for (auto& [id, worker] : workers_)
      if (survives(worker) && stopped_workers_.contains(id)) worker.condemned = any = true;
    if (!any)
      for (auto& [id, worker] : workers_)
        if (survives(worker)) worker.condemned = true;
  }
  trouble({Outcome::Kind::hung, std::move(hung), CauseKind::hung, false});
}

// ---- by name

void JobMachine::on(const RestartWorld&) {
  if (!may_restart()) return ignore("restart", "nothing runs, or the program is ending");
  state_exists_ = false;  // the user wants it so, and need not be told that nobody has survived
  for (auto& [id, worker] : workers_)
    if (worker.member) worker.condemned = true;
  trouble({Outcome::Kind::worker_failed, cause::RestartAsked{}, CauseKind::asked_for, true});
}

void JobMachine::on(const RestartWorker& event) {
  if (!may_restart(event.rank)) return ignore("restart worker", "it does not run, or the program is ending");
  auto* worker = member_at(event.rank);
  worker->condemned = true;
  trouble({Outcome::Kind::worker_failed, cause::RestartAsked{event.rank}, CauseKind::asked_for, true});
}

void JobMachine::on(const StopWorker& event) {
  if (!may_restart(event.rank)) return ignore("stop worker", "it does not run, or the program is ending");
  auto* worker = member_at(event.rank);
  ++stopped_slots_[worker->seat.host];
  worker->condemned = true;
  trouble({Outcome::Kind::worker_failed, cause::StopAsked{event.rank}, CauseKind::asked_for, true});
}

}  // namespace trainrun::core
