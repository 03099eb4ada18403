// Newcomers of an in-place world: they start, import and read their data while the world goes on without
// them, and have their place in the next one when they ask for it. Nobody waits for them, but where the world
// would be smaller than --min-np (decision 0074).
#include <algorithm>
#include <csignal>
#include <variant>

#include "launcher/core/job_machine.h"

namespace trainrun::core {

// Whoever starts anew can be given its place later. Not Horovod's own ranks, which have theirs by their
// environment; and of a program that has not met yet nobody knows what it is.
bool JobMachine::grows_later() const { return world_elastic_ && first_took_ && !horovod_ && in_place_now(); }

bool JobMachine::takes_newcomers() const {
  return grows_later() && world_stands() && !newcomers_given_up_ && !program_ends();
}

int JobMachine::least_size() const {
  return spec_.elastic.min_np > 0 ? spec_.elastic.min_np : spec_.world_size();
}

int JobMachine::most_size() const {
  return spec_.elastic.max_np > 0 ? spec_.elastic.max_np : spec_.world_size();
}

// Who lives on a host that rests keeps its slot there, and nobody else gets one. (With --oversubscribe the
// hosts that serve hold any world.)
int JobMachine::held_by_resting() const {
  if (!in_place_now() || spec_.oversubscribe) return 0;
  int held = 0;
  for (const auto host : roster_.resting(now_, forgiven())) held += world_.survivors_on(host);
  return held;
}

// Beside so many survivors: those that are ready, and where the world would be too small also those that are
// not.
std::vector<const Worker*> JobMachine::joining(int survivors, int size) const {
  std::vector<const Worker*> out, loading;
  const auto missing = [&](int of) { return survivors + static_cast<int>(out.size()) < of; };
  for (const auto id : world_.newcomers()) {
    const auto& worker = world_.at(id);
    if (!worker.waits)
      loading.push_back(&worker);
    else if (missing(size))
      out.push_back(&worker);
  }
  for (const auto* worker : loading)
    if (missing(least_size())) out.push_back(worker);
  return out;
}

// Horovod's own ranks have their place by their environment, so the others wait for whoever comes anew. But
// after one of those has failed they go on alone, and try again as late as others do.
bool JobMachine::growth_waits() const { return horovod_ && (newcomers_given_up_ || newcomers_from_ > now_); }

// The world has not met, all who were there before live, and they are enough.
bool JobMachine::newcomers_failed(const Disruption& disruption) const {
  if (!horovod_ || !in_place_now() || !world_.begun() || met_ || disruption.planned || kept_ == 0)
    return false;
  const auto& all = world_.all();
  const bool only_they = std::none_of(all.begin(), all.end(), [](const auto& it) {
    return it.second.member && it.second.has_state && !it.second.survives();
  });
  return only_they && world_.counts().survivors >= least_size();
}

// The next try is as far off as they were waited for: it may be in vain again.
void JobMachine::go_on_without_newcomers(const Disruption& disruption) {
  newcomers_back_off();
  newcomers_from_ = std::max(newcomers_from_, now_ + (now_ - world_ordered_at_));
  tell(notice::NewcomerFailed{disruption.what, world_.counts().survivors, newcomers_from_ - now_});
}

// Whoever lives now and has not joined belongs to this failure.
void JobMachine::newcomers_back_off() {
  newcomers_from_ = std::max(newcomers_from_, now_ + backoff_after(++newcomers_failed_));
  last_newcomer_that_failed_ = world_.last();
}

std::vector<WorkerView> JobMachine::newcomers() const {
  std::vector<WorkerView> all;
  for (const auto id : world_.newcomers()) {
    const auto& worker = world_.at(id);
    all.push_back({id, worker.seat, worker.pid, worker.state, worker.since, true, worker.waits, true});
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.seat.rank < b.seat.rank; });
  return all;
}

// As many as the hosts have slots for that serve now; and none keeps a rank that another one has got.
void JobMachine::order_newcomers() {
  const int there = world_.size() + static_cast<int>(world_.newcomers().size());
  int size = there;
  if (takes_newcomers() && newcomers_from_ <= now_)
    size = std::max(size, world_size_on(spec_, free_slots(false) + held_by_resting() + handing_over()));
  if (world_stands() && (size > there || newcomers_have_taken_ranks())) plan_newcomers(size);
  watch_newcomers();
}

// Since the world has grown.
bool JobMachine::newcomers_have_taken_ranks() const {
  const auto& all = world_.newcomers();
  return std::any_of(all.begin(), all.end(),
                     [this](WorkerId id) { return world_.member_at(world_.at(id).seat.rank) != nullptr; });
}

void JobMachine::plan_newcomers(int size) {
  auto sitting = world_.seats();
  for (const auto id : world_.newcomers()) sitting.push_back(world_.at(id).seat);
  auto later = replan_around(spec_, Generation{0}, sitting, {}, rooms(false), size);
  if (later.seats.size() == sitting.size() && !newcomers_have_taken_ranks())
    return;  // who still ends has the slots
  const Shares shares(spec_, later, [this](HostIndex index) { return share_of(index); });
  PlanNewcomers plan;
  for (const auto id : world_.newcomers()) plan.workers.push_back(id);
  std::vector<StartWorker> starts;
  notice::NewcomersStart told;
  for (auto seat = later.seats.begin() + world_.size(); seat != later.seats.end(); ++seat) {
    const auto number = static_cast<std::size_t>(seat - later.seats.begin() - world_.size());
    if (number < plan.workers.size()) {
      world_.change(plan.workers[number], [&seat](Worker& worker) { worker.seat = *seat; });
      continue;
    }
    const auto id = world_.order_newcomer(*seat, now_);
    plan.workers.push_back(id);
    starts.push_back({id, Generation{0}, seat->rank, shares.of(*seat)});
    told.ranks.push_back(who(world_.at(id)));
  }
  plan.placement = std::move(later);
  act(std::move(plan));
  for (auto& start : starts) act(std::move(start));
  if (!told.ranks.empty()) tell(std::move(told));
}

// Hosts come, or all ranks start anew: what befell others says nothing of them.
void JobMachine::newcomers_may_come() {
  newcomers_given_up_ = false;
  newcomers_failed_ = 0;
}

// Those for which there is no place any more.
void JobMachine::review_newcomers() {
  if (world_.newcomers().empty() || phase_ == Phase::draining) return;
  const bool none = program_ends() || !grows_later() || (phase_ == Phase::cooling && staying().empty());
  const auto pardoned = forgiven();
  std::map<HostIndex, int> sit;
  notice::NewcomersLeave told;
  for (const auto id : std::set<WorkerId>(world_.newcomers())) {
    const auto& worker = world_.at(id);
    const auto host = worker.seat.host;
    const bool fits = spec_.oversubscribe || world_.survivors_on(host) + ++sit[host] <= slots_on(host);
    if (!none && usable(host, pardoned) && fits) continue;
    told.ranks.push_back(who(worker));
    dismiss(id);
  }
  if (told.ranks.empty()) return;
  told.program_ends = program_ends();
  tell(std::move(told));
  await_leavers();
}

// It ended before it had joined.
void JobMachine::newcomer_ended(WorkerId id, const std::string& last_words) {
  const auto& worker = world_.at(id);
  if (roster_.at(worker.seat.host).state == HostState::ready)
    act(Sweep{worker.seat.host, std::nullopt, {id}});
  newcomer_is_lost(worker, cause::RankFailed{who(worker), worker.status, last_words},
                   worker.status.success());
  // It may have had its place in the world that is being planned, and its host may rest now.
  if (phase_ == Phase::forming && !world_.begun()) enter(Phase::cooling);
  consider_change();
}

// It costs no restart, since nobody is disturbed: a bad host would use up what protects the others. Those
// that fail together are noticed one after the other, and slow down what follows once.
void JobMachine::newcomer_is_lost(const Worker& worker, Cause why, bool finished) {
  world_.change(worker.id, [](Worker& it) { it.newcomer = false; });
  notice::NewcomerFailed told{std::move(why), world_stands() ? world_.size() : 0};
  if (finished) {
    newcomers_given_up_ = true;
    return tell(std::move(told));
  }
  const bool as_well = worker.id <= last_newcomer_that_failed_;
  if (!as_well) newcomers_back_off();
  auto rest = as_well ? std::nullopt : rest_of(worker.seat.host);
  told.rests = rest.has_value();
  if (rest) newcomers_from_ = now_;  // without the culprit there is no crash loop to slow down
  told.again = std::max(Duration::zero(), newcomers_from_ - now_);
  tell(std::move(told));
  if (rest) tell(std::move(*rest));
}

// Since one has failed; nothing: they are started now, or never.
std::optional<Instant> JobMachine::newcomers_start_at() const {
  if (newcomers_from_ > now_ && (takes_newcomers() || horovod_)) return newcomers_from_;
  return std::nullopt;
}

void JobMachine::watch_newcomers() {
  auto next = newcomers_start_at();
  for (const auto id : world_.newcomers()) {
    const auto& worker = world_.at(id);
    if (worker.waits || worker.state != WorkerState::spawned) continue;
    const auto until = worker.since + time_to_load().first;
    next = std::min(next.value_or(until), until);
  }
  if (next && world_stands())
    arm(Deadline::newcomers, std::max(now_, *next));
  else
    disarm(Deadline::newcomers);
}

void JobMachine::newcomers_due() {
  const auto [waited, limit] = time_to_load();
  std::vector<WorkerId> late;
  for (const auto id : std::set<WorkerId>(world_.newcomers())) {
    const auto& worker = world_.at(id);
    if (worker.waits || worker.state != WorkerState::spawned || now_ < worker.since + waited) continue;
    late.push_back(id);
    world_.doom(id, Fate::killed);
    give_time_to_leave(id, after_kill);
    const Generation next{world_.generation().value + 1};
    newcomer_is_lost(worker, cause::MembersMissing{{who(worker)}, next, waited, limit}, false);
  }
  if (!late.empty()) act(SignalWorkers{SIGKILL, false, std::move(late)});
  await_leavers();
  consider_change();
}

// Some are ready, and there are slots for them.
bool JobMachine::newcomers_are_ready(int size) const {
  return size > world_.size() && world_.counts().newcomers_that_wait > 0;
}

bool JobMachine::all_newcomers_wait() const {
  return world_.counts().newcomers_that_wait == static_cast<int>(world_.newcomers().size());
}

bool JobMachine::has_ready_newcomer(HostIndex host) const {
  const auto& all = world_.newcomers();
  return std::any_of(all.begin(), all.end(), [&](WorkerId id) {
    const auto& worker = world_.at(id);
    return worker.waits && worker.seat.host == host;
  });
}

}  // namespace trainrun::core
