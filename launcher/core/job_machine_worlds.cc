// What follows from a failure or a change: who ends, who stays, and the next generation.
#include "launcher/core/job_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "launcher/base/strings.h"

namespace trainrun::core {
namespace {

int slots_in(const std::vector<Room>& rooms) {
  int sum = 0;
  for (const auto& room : rooms) sum += room.slots;
  return sum;
}

std::string count(int number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

}  // namespace

bool JobMachine::in_place_now() const {
  switch (spec_.elastic.on_failure) {
    case OnFailure::abort:
    case OnFailure::restart_world:
      return false;
    case OnFailure::automatic:
      return world_elastic_;
    case OnFailure::in_place:
      // A program that never came to the rendezvous will not come for its next place either.
      return world_elastic_ || std::any_of(workers_.begin(), workers_.end(), [](const auto& it) {
               return it.second.member && (it.second.joined || it.second.seasoned);
             });
  }
  return false;
}

bool JobMachine::somebody_finished_well() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const auto& it) {
    const auto& worker = it.second;
    return worker.member && !worker.condemned && worker.status.success() &&
           (worker.state == WorkerState::exited || worker.state == WorkerState::finished);
  });
}

bool JobMachine::survives(const Worker& worker) {
  return worker.member && !worker.condemned && worker.state == WorkerState::spawned;
}

// In forming and running alone: a world that is drained already is not troubled again.
void JobMachine::trouble(const Trouble& trouble) {
  if (!elastic()) return end_because(trouble.kind);
  const bool survivors =
      std::any_of(workers_.begin(), workers_.end(), [](const auto& it) { return survives(it.second); });
  const bool in_place = in_place_now();
  // The others of an in-place world had finished: nobody is left who has the state, and a new one would start
  // over.
  if (in_place && !survivors && somebody_finished_well()) return end_because(trouble.kind);
  followed_another_ = failed_at_.has_value();
  if (!trouble.planned) {
    if (!budget_.spend(now_)) {
      verdict_.out_of_restarts = true;
      verdict_.reason = trouble.what;
      return end_because(trouble.kind);
    }
    ++verdict_.restarts;
    if (!failed_at_) failed_at_ = now_;
  }
  count_cause(trouble.cause);
  blaming_ = !trouble.planned;
  changed_by_ = trouble.what;
  survivors_stay_ = in_place && survivors;
  if (in_place && !survivors)
    say("no rank survived: the world starts anew from the program's own checkpoint");
  if (!trouble.planned) {
    say(fmt::format("{}; {} (restart {} of {} {})", trouble.what,
                    survivors_stay_ ? "the others go on without it" : "all ranks start anew", budget_.spent(),
                    spec_.elastic.limit.count, describe_window(spec_.elastic.limit)));
  }
  if (!survivors_stay_) {
    for (auto& [id, worker] : workers_)
      if (worker.member) worker.condemned = true;
    world_elastic_ = false;
  }
  begin_draining(trouble);
}

void JobMachine::count_cause(const std::string& cause) {
  auto& causes = verdict_.causes;
  const auto it =
      std::find_if(causes.begin(), causes.end(), [&](const auto& one) { return one.first == cause; });
  if (it == causes.end())
    causes.emplace_back(cause, 1);
  else
    ++it->second;
}

void JobMachine::begin_draining(const Trouble& trouble) {
  then_ = Then::restart;
  drained_at_ = now_;
  kill_sent_ = swept_ = false;
  disarm(Deadline::settle);
  disarm(Deadline::join);
  disarm(Deadline::leave);
  enter(Phase::draining);
  if (begun_) act(EndGeneration{world_.generation, trouble.planned ? std::nullopt : culprit(), trouble.what});
  std::vector<WorkerId> doomed;
  for (const auto& [id, worker] : workers_)
    if (worker.member && worker.condemned && worker.state != WorkerState::finished) doomed.push_back(id);
  if (!survivors_stay_) {
    drain_signal_ = trouble.planned ? spec_.elastic.leave_signal : SIGTERM;
    act(SignalWorkers{drain_signal_, false});
  } else if (!doomed.empty()) {
    drain_signal_ = SIGKILL;
    kill_sent_ = true;
    act(SignalWorkers{SIGKILL, false, doomed});
  }
  arm(kill_sent_ ? Deadline::kill : Deadline::grace, now_ + (kill_sent_ ? after_kill : spec_.grace));
  after_worker_change();
}

void JobMachine::drain_step() {
  if (survivors_stay_) {
    for (const auto& [id, worker] : workers_)
      if (worker.member && worker.condemned && worker.state != WorkerState::finished) return;
    return after_drain();
  }
  if (!none_alive()) return;
  // Daemons of the dead hold their pipes, their ports and their GPUs: they go before the next generation
  // starts.
  if (!std::exchange(swept_, true)) {
    for (std::uint32_t i = 0; i < hosts_.size(); ++i) {
      if (hosts_[i].state != HostState::ready) continue;
      hosts_[i].sweeping = true;
      act(Sweep{{i}, world_.generation, {}});
    }
    disarm(Deadline::grace);
    disarm(Deadline::kill);
    arm(Deadline::sweep, now_ + spec_.grace + after_kill);
  }
  if (std::any_of(hosts_.begin(), hosts_.end(), [](const auto& host) { return host.sweeping; })) return;
  if (all_members(WorkerState::finished)) after_drain();
}

void JobMachine::on(const HostSwept& event) {
  auto& host = hosts_.at(event.host.value);
  if (!host.sweeping || event.generation != world_.generation)
    return ignore("host swept", "it was not asked to, or was given up");
  host.sweeping = false;
  verdict_.leftovers += event.leftovers;
  if (event.leftovers > 0)
    say(fmt::format("{}: ended {} that outlived {} worker", host_name(event.host),
                    event.leftovers == 1 ? "a process" : fmt::format("{} processes", event.leftovers),
                    event.leftovers == 1 ? "its" : "their"));
  if (phase_ == Phase::draining) after_worker_change();
}

void JobMachine::after_drain() {
  for (const auto deadline : {Deadline::grace, Deadline::kill, Deadline::sweep}) disarm(deadline);
  if (blaming_) blame();
  const bool well = somebody_finished_well();
  // What the dead left on hosts where others live on: it goes without anybody waiting for it.
  std::map<HostIndex, std::vector<WorkerId>> dead;
  for (auto it = workers_.begin(); it != workers_.end();) {
    auto& worker = it->second;
    if (!worker.member || survives(worker) || worker.state == WorkerState::ordered) {
      ++it;
      continue;
    }
    if (survivors_stay_ && hosts_.at(worker.seat.host.value).state == HostState::ready)
      dead[worker.seat.host].push_back(it->first);
    worker.member = false;
    it = worker.state == WorkerState::finished ? workers_.erase(it) : std::next(it);
  }
  for (auto& [host, ids] : dead) act(Sweep{host, std::nullopt, std::move(ids)});
  somebody_left_well_ = survivors_stay_ && well;
  begun_ = false;
  enter(Phase::cooling);
  if (blaming_ && budget_.backoff() > Duration::zero()) {
    say(fmt::format("waiting {} before the next start", format_duration(budget_.backoff())));
    arm(Deadline::backoff, now_ + budget_.backoff());
  }
  try_form();
}

// The first cause alone is blamed: those that lost a peer are its victims.
void JobMachine::blame() {
  std::vector<Failure> failures;
  for (const auto& [id, worker] : workers_)
    if (worker.member && worker.failure) failures.push_back(*worker.failure);
  if (failures.empty()) return;
  const auto& cause = failures[first_cause(failures)];
  changed_by_ =
      fmt::format("rank {} on {} {}", cause.rank.value, host_name(cause.host), cause.status.describe());
  if (cause.lost_peer || !ledger_.worker_failed(cause.host, now_)) return;
  const auto until = ledger_.rests_until(cause.host, now_);
  say(fmt::format("{} rests for {}: {} of its workers failed within {}", host_name(cause.host),
                  format_duration(until ? *until - now_ : Duration::zero()), HostLedger::tolerated + 1,
                  format_duration(HostLedger::window)));
}

// ---- the next generation

void JobMachine::try_form() {
  if (phase_ != Phase::gathering && phase_ != Phase::cooling) return;
  dial_wanted();
  if (armed_.contains(Deadline::backoff)) return;
  std::vector<Seat> survivors;
  for (const auto& [id, worker] : workers_)
    if (survives(worker)) survivors.push_back(worker.seat);
  const auto now = rooms(false);
  int size = world_size_on(spec_, slots_in(now));
  const int possible = world_size_on(spec_, slots_in(rooms(true)));
  if (phase_ == Phase::gathering) {
    const bool more_may_come = any_dialling() || spec_.elastic.discovery.kind != DiscoveryKind::none;
    const bool patient = armed_.contains(Deadline::start) && more_may_come;
    if (size > 0 && (!patient || (size >= possible && size >= spec_.world_size()))) return form_next(size);
    if (!more_may_come) return give_up_gathering();
    if (!armed_.contains(Deadline::start)) return wait_for_hosts(slots_in(now));
    return;
  }
  if (survivors_stay_ && somebody_left_well_) size = static_cast<int>(survivors.size());
  if (size == 0) return wait_for_hosts(slots_in(now));
  if (possible > size && !survivors_complete(survivors, size)) {
    if (!settle_over_) {
      if (!armed_.contains(Deadline::settle)) arm(Deadline::settle, now_ + spec_.elastic.settle);
      return;
    }
  }
  form_next(size);
}

// A world that lost nobody need not wait for hosts that may come: it can grow later.
bool JobMachine::survivors_complete(const std::vector<Seat>& survivors, int size) const {
  return survivors_stay_ && static_cast<int>(survivors.size()) >= size;
}

void JobMachine::wait_for_hosts(int slots) {
  if (armed_.contains(Deadline::world)) return;
  const int least = spec_.elastic.min_np > 0 ? spec_.elastic.min_np : spec_.world_size();
  say(fmt::format("waiting for hosts: {} of the {} that the smallest world needs; giving up in {}",
                  count(slots, "slot"), least, format_duration(spec_.elastic.timeout)));
  act(AskForHosts{});
  arm(Deadline::world, now_ + spec_.elastic.timeout);
}

void JobMachine::form_next(int size) {
  for (const auto deadline : {Deadline::start, Deadline::settle, Deadline::world}) disarm(deadline);
  settle_over_ = false;
  verdict_.host_errors.clear();
  const Generation next{world_.generation.value + 1};
  // Those who may hold state come first; among them, and among the others, the old order stays.
  std::vector<const Worker*> alive;
  for (const auto& [id, worker] : workers_)
    if (survives(worker)) alive.push_back(&worker);
  std::sort(alive.begin(), alive.end(), [](const Worker* a, const Worker* b) {
    return std::pair(!a->seasoned, a->seat.rank) < std::pair(!b->seasoned, b->seat.rank);
  });
  if (alive.empty()) {
    if (std::exchange(survivors_stay_, false))
      say("no rank survived: the world starts anew from the program's own checkpoint");
    world_elastic_ = false;
    world_ = replan_all(spec_, next, world_.seats, rooms(false), size);
  } else {
    std::vector<Seat> survivors, vacated;
    for (const auto* worker : alive)
      if (usable(worker->seat.host, {worker->seat.host})) survivors.push_back(worker->seat);
    for (const auto& seat : world_.seats)
      if (std::none_of(survivors.begin(), survivors.end(),
                       [&](const Seat& other) { return other.host == seat.host && other.slot == seat.slot; }))
        vacated.push_back(seat);
    world_ = replan_around(next, survivors, vacated, rooms(false), size);
  }
  kept_ = static_cast<int>(std::min(alive.size(), world_.seats.size()));
  verdict_.generation = next;
  form();
}

void JobMachine::world_runs() {
  enter(Phase::running);
  if (!elastic()) return;
  if (!survivors_stay_ || met_) tell_generation();
  consider_change();
}

// `generation 3: 6 ranks on 3 hosts; gpu2 lost (no answer for 3.0 s); state kept by 4 survivors; 1.2 s`
void JobMachine::tell_generation() {
  auto line = fmt::format("generation {}: {} on {}", world_.generation.value,
                          count(static_cast<int>(world_.seats.size()), "rank"),
                          count(static_cast<int>(world_.groups), "host"));
  if (!changed_by_.empty()) line += "; " + changed_by_;
  if (survivors_stay_) line += fmt::format("; state kept by {}", count(kept_, "survivor"));
  if (failed_at_) {
    line += "; " + format_duration(now_ - *failed_at_);
    verdict_.lost_time += now_ - *failed_at_;
  }
  say(line);
  failed_at_.reset();
  changed_by_.clear();
  survivors_stay_ = false;
}

// ---- changes that are no failures

bool JobMachine::must_leave(const Worker& worker) const {
  if (!worker.member || worker.state == WorkerState::finished) return false;
  const auto& host = hosts_.at(worker.seat.host.value);
  return host.leaving || !host.listed;
}

void JobMachine::consider_change() {
  switch (phase_) {
    case Phase::gathering:
    case Phase::cooling:
      return try_form();
    case Phase::forming:
    case Phase::draining:
      return dial_wanted();
    case Phase::running:
      break;
    case Phase::closing:
    case Phase::done:
      return;
  }
  dial_wanted();
  release_unused();
  if (survivors_stay_) return;  // its members have not met yet
  if (change_needed().first || change_needed().second) {
    if (!armed_.contains(Deadline::settle)) arm(Deadline::settle, now_ + spec_.elastic.settle);
  } else {
    disarm(Deadline::settle);  // an undone change causes nothing
  }
}

// Hosts come that the world can grow on; hosts go that it runs on. Hosts that go are left only for a world
// that the others can hold.
std::pair<bool, bool> JobMachine::change_needed() const {
  if (somebody_finished_well()) return {false, false};  // the program is ending
  const int size = world_size_on(spec_, slots_in(rooms(false)));
  const bool grows = size > static_cast<int>(world_.seats.size());
  const bool leaves = size > 0 && std::any_of(workers_.begin(), workers_.end(),
                                              [this](const auto& it) { return must_leave(it.second); });
  return {grows, leaves};
}

void JobMachine::settled() {
  if (phase_ == Phase::cooling) {
    settle_over_ = true;
    return try_form();
  }
  if (phase_ != Phase::running) return ignore("settle", "the world is being formed");
  const auto [come, leave] = change_needed();
  if (!come && !leave) return;
  change_world(leave ? "hosts left" : "hosts came", come, leave);
}

void JobMachine::change_world(const std::string& why, bool come, bool leave) {
  if (!in_place_now())
    return trouble({Outcome::Kind::worker_failed, why, leave ? "host left" : "hosts came", true});
  planned_change_ = {Outcome::Kind::worker_failed, why, leave ? "host left" : "hosts came", true};
  Announce announce{world_.generation, come, leave, {}};
  for (const auto& [id, worker] : workers_)
    if (must_leave(worker)) announce.leaving.push_back(id);
  announced_ = true;
  act(std::move(announce));
  if (leave) arm(Deadline::leave, now_ + spec_.grace);
}

// The grace of a host that leaves is over, or that of members who have no place any more.
void JobMachine::grace_of_leavers_over() {
  std::vector<WorkerId> late;
  for (const auto& [id, worker] : workers_)
    if (!worker.member && worker.state == WorkerState::spawned) late.push_back(id);
  if (!late.empty()) act(SignalWorkers{SIGKILL, false, late});
  if (phase_ != Phase::running && phase_ != Phase::forming) return;
  bool any = false;
  for (auto& [id, worker] : workers_) {
    if (!must_leave(worker)) continue;
    worker.condemned = any = true;
  }
  if (any) trouble({Outcome::Kind::worker_failed, planned_change_.what, "host left", true});
}

}  // namespace trainrun::core
