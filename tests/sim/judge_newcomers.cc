// Newcomers of an in-place world: no survivor waits for one, none is forgotten, and what they cost.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <variant>

#include "launcher/core/replan.h"
#include "tests/sim/judge.h"

namespace trainrun::sim {

using namespace core;
using Phase = JobMachine::Phase;

bool Judge::loads(const Known& worker) const { return worker.newcomer && lives(worker) && !worker.ready; }

// Before the event is taken down: one ends that was to join.
void Judge::note_newcomer(const JobEvent& event) {
  newcomer_failed_.reset();
  newcomer_finished_ = false;
  const auto ends = [this](WorkerId id, const ExitStatus& status) {
    const auto it = workers_.find(id);
    if (it == workers_.end() || !it->second.newcomer || !lives(it->second) || job_ends_ || closed_at_) return;
    newcomer_finished_ = status.success();
    if (!newcomer_finished_) newcomer_failed_ = id;
    it->second.newcomer = false;
  };
  if (const auto* exited = std::get_if<WorkerExited>(&event)) ends(exited->worker, exited->status);
  if (const auto* none = std::get_if<WorkerNotStarted>(&event)) ends(none->worker, none->status);
  if (const auto* waits = std::get_if<MemberWaits>(&event); waits != nullptr && waits->generation.value == 0)
    if (const auto it = workers_.find(waits->worker); it != workers_.end() && it->second.newcomer)
      it->second.ready = true;
  hosts_come_ = false;
  const auto is_new = [this](const Host& one) {
    return std::none_of(hosts_.begin(), hosts_.end(),
                        [&one](const auto& known) { return known.listed && known.host.name == one.name; });
  };
  if (const auto* add = std::get_if<AddHosts>(&event)) hosts_come_ = !add->hosts.empty();
  if (const auto* list = std::get_if<HostsDiscovered>(&event))
    hosts_come_ = std::any_of(list->hosts.begin(), list->hosts.end(), is_new);
  if (hosts_come_ && goes_on()) newcomers_may_come();
}

void Judge::plans(const PlanNewcomers& plan) {
  if (!world_) return fail("newcomers come to no world");
  const auto& seats = plan.placement.seats;
  if (seats.size() != world_->workers.size() + plan.workers.size())
    return fail("the world with its newcomers has another size");
  if (static_cast<int>(seats.size()) > scenario_.most()) fail("more newcomers than the largest world holds");
  const bool some_start = std::any_of(plan.workers.begin(), plan.workers.end(),
                                      [this](WorkerId id) { return !workers_.contains(id); });
  if (some_start && program_ends()) fail("newcomers are started, and others have finished");
  if (some_start && now_ < newcomers_from_) fail("newcomers are started before their back-off is over");
  std::map<HostIndex, int> used;
  for (const auto& [id, worker] : workers_)
    if (lives(worker) && !worker.newcomer) ++used[worker.seat.host];
  for (std::size_t i = 0; i < plan.workers.size(); ++i) {
    const auto& seat = seats[world_->workers.size() + i];
    const auto [it, is_new] = workers_.try_emplace(plan.workers[i]);
    auto& worker = it->second;
    ++used[seat.host];
    if (!is_new && (!worker.newcomer || !lives(worker)))
      fail(fmt::format("worker {} is planned for, and is no newcomer", it->first.value));
    if (!is_new && (seat.host != worker.seat.host || seat.slot != worker.seat.slot))
      fail(fmt::format("newcomer {} is moved", it->first.value));
    worker.seat = seat;
    if (!is_new) continue;
    worker.newcomer = true;
    to_start_.insert(it->first);
    need_link(seat.host, "a newcomer");
    const auto& known = host(seat.host);
    if (!known.listed || known.removed || known.leaving ||
        (now_ < known.rests_until && good_slots(Link::ready) >= scenario_.least()))
      fail(fmt::format("host {} gets a newcomer, and is not to be used", seat.host.value));
    if (!scenario_.spec.oversubscribe && used[seat.host] > slots_of(scenario_.spec, known.host))
      fail(fmt::format("host {} has no slot for a newcomer", seat.host.value));
    for (const auto& [other, sits] : workers_)
      if (other != it->first && lives(sits) && sits.seat.host == seat.host && sits.seat.slot == seat.slot)
        fail(fmt::format("a newcomer gets the slot in which worker {} lives", other.value));
  }
}

// Survivors that are enough wait for nobody.
void Judge::check_nobody_waits(const BeginWorld& begin) {
  grows_ = grows_ && kept_;
  if (!grows_ || !scenario_.in_place()) return;
  int here = 0, others = 0;
  bool stateful = false;
  for (const auto id : begin.workers) {
    const auto it = workers_.find(id);
    const bool survives = it != workers_.end() && !it->second.newcomer;
    const bool ready = it != workers_.end() && it->second.ready;
    (survives || ready ? here : others) += 1;
    stateful = stateful || (survives && it->second.was_member);
  }
  if (stateful && others > 0 && here >= scenario_.least())
    fail(fmt::format("{} ranks could go on, and wait for {} that load", here, others));
}

// Nor is one of them left out for whom there is room.
void Judge::check_nobody_is_left_out(const BeginWorld& begin) {
  if (!kept_ || program_ends() || slot_stopped_ || plan_is_old_ ||
      static_cast<int>(begin.workers.size()) >= scenario_.most())
    return;
  for (const auto& [id, worker] : workers_) {
    const auto& on = host(worker.seat.host);
    const bool stays = on.listed && !on.leaving && !on.removed && on.link == Link::ready;
    if (!worker.was_member || !stays || worker.state != Known::State::started || worker.ended_by_order)
      continue;
    if (std::find(begin.workers.begin(), begin.workers.end(), id) != begin.workers.end()) continue;
    if (live_members(worker.seat.host, {}) <= slots_there(worker.seat.host))
      fail(fmt::format("worker {} is healthy, and has no place in a world that has room", id.value));
  }
}

bool Judge::grows_later() const {
  return world_ && scenario_.in_place() && grows_ && (kept_ || met_ == world_->placement.generation);
}

int Judge::newcomers(bool that_are_ready) const {
  return static_cast<int>(std::count_if(workers_.begin(), workers_.end(), [&](const auto& it) {
    return it.second.newcomer && lives(it.second) && (it.second.ready || !that_are_ready);
  }));
}

// Survivors wait for them: after one that failed, not before the back-off is over.
bool Judge::horovods_may_come() const { return !newcomers_given_up_ && now_ >= newcomers_from_; }

// Listed hosts that are there, and rest no more: those that gave no trouble but by their ranks.
int Judge::slots_for_newcomers() const {
  int slots = 0;
  for (const auto& known : hosts_) {
    const bool has_rested =
        now_ > std::max(known.rests_until, known.sick_at + scenario_.spec.elastic.cooldown_max);
    if (known.link == Link::ready && known.listed && !known.removed && !known.leaving &&
        (known.good || (known.stays && has_rested)))
      slots += slots_of(scenario_.spec, known.host);
  }
  return slot_stopped_ ? 0 : slots;
}

bool Judge::budget_left() const {
  const auto& limit = scenario_.spec.elastic.limit;
  return std::count_if(restarts_.begin(), restarts_.end(),
                       [&](Instant at) { return now_ - at <= limit.window; }) < limit.count;
}

void Judge::check_newcomers(const JobMachine& machine) {
  check_cost_of_newcomers();
  const bool serves = machine.phase() == Phase::running && goes_on();
  for (const auto& [id, worker] : workers_) {
    if (!worker.newcomer || !lives(worker) || !serves) continue;
    if (goes_away(worker.seat.host))
      fail(fmt::format("newcomer {} goes on to start on a host that goes", id.value));
    if (worker.seat.rank.value < world_->workers.size())
      fail(fmt::format("newcomer {} is planned for the rank of another", id.value));
  }
  if (machine.phase() != Phase::running || !grows_later() || !goes_on() || program_ends() || over_) return;
  if (met_ != world_->placement.generation || newcomers_given_up_ || now_ < newcomers_from_) return;
  if (std::any_of(workers_.begin(), workers_.end(),
                  [this](const auto& it) { return it.second.dismissed && lives(it.second); }))
    return;
  const int size = size_on(slots_for_newcomers());
  if (size > static_cast<int>(world_->workers.size()) + newcomers(false))
    fail("slots are free, and nobody is started for them");
}

// Nobody is disturbed: it costs nothing but time, and each time more of it.
void Judge::check_cost_of_newcomers() {
  const bool told = std::exchange(told_of_newcomer_, false);
  const int charged = std::exchange(charged_now_, 0);
  if (charged > 1) fail("one failure costs more than one restart");
  if (newcomer_finished_ && charged > 0) fail("a newcomer finishes, and it costs a restart");
  if (!newcomer_failed_) return;
  if (!told) fail("a newcomer fails, and nothing is said");
  if (charged > 0) fail("a newcomer fails, and it costs a restart");
  newcomer_failed_.reset();
}

void Judge::newcomers_may_come() {
  newcomers_given_up_ = false;
  newcomers_failed_ = 0;
}

void Judge::note_told_of_newcomer(const notice::NewcomerFailed& told) {
  told_of_newcomer_ = true;
  if (const auto* overdue = std::get_if<cause::MembersMissing>(&told.cause))
    for (const auto& who : overdue->late) note_sick(who.worker, ExitStatus::killed(SIGKILL, false));
  if (!told.again) {
    newcomers_given_up_ = true;
    return;
  }
  newcomers_from_ = now_ + *told.again;
  // Whoever was there at the failure before belongs to it.
  const auto* failed = std::get_if<cause::RankFailed>(&told.cause);
  const auto* late = std::get_if<cause::MembersMissing>(&told.cause);
  const bool names_it = late != nullptr && !late->late.empty();  // else it has ended before
  const auto who = failed != nullptr ? failed->who.worker : names_it ? late->late.front().worker : WorkerId{};
  if (!horovods_ && who <= last_newcomer_that_failed_) return;
  constexpr Duration longest = seconds(30);
  const auto least = std::min<Duration>(seconds(1) * (1 << std::min(newcomers_failed_, 5)), longest);
  ++newcomers_failed_;
  for (const auto& [id, worker] : workers_)
    last_newcomer_that_failed_ = std::max(last_newcomer_that_failed_, id);
  if (!told.rests && *told.again < least) fail("newcomers that fail again and again are started too soon");
}

// Those that survive a death, and are enough, do not wait for whoever comes in its place.
void Judge::note_back_off(const notice::BackingOff& told) {
  if (!told.others_go_on && all_wait_until_ == now_ + told.wait) return;  // its rest
  backs_off_ = told.wait;
  if (told.others_go_on) newcomers_from_ = now_ + told.wait;
  all_wait_until_.reset();
  if (told.others_go_on) all_wait_until_ = newcomers_from_;
}

// What users or hosts want is not slowed down.
void Judge::note_planned(const Cause& why) {
  planned_end_ =
      std::holds_alternative<cause::RestartAsked>(why) || std::holds_alternative<cause::HostsChanged>(why) ||
      std::holds_alternative<cause::HostLeaves>(why) || std::holds_alternative<cause::StopAsked>(why);
}

// They fail, too, before they have met: then there is nobody who need not wait.
void Judge::check_those_who_went_on() {
  if (!kept_ && !planned_end_ && all_wait_until_ && now_ < *all_wait_until_)
    fail("all ranks start before the back-off is over for which the others did not wait");
}

void Judge::check_who_backs_off() {
  if (!death_ || !grows_ || !scenario_.in_place() || program_ends() || slot_stopped_) return;
  int survivors = 0;
  for (const auto& [id, worker] : workers_) {
    const auto on = worker.seat.host;
    const bool stays = is_member(worker) && worker.was_member && worker.state == Known::State::started &&
                       !worker.ended_by_order && !worker.asked && host(on).link == Link::ready;
    if (stays && !goes_away(on) && live_members(on, {}) <= slots_there(on)) ++survivors;
  }
  if (survivors >= scenario_.least())
    fail(fmt::format("{} ranks could go on, and wait for a back-off", survivors));
}

// ---- who has no place any more has its time, and no more than that

void Judge::tell_to_go(Known& worker) const {
  if (!worker.told_to_go || now_ - *worker.told_to_go >= scenario_.spec.grace) worker.told_to_go = now_;
}

void Judge::check_grace(const Known& worker, WorkerId id) {
  if (worker.dismissed && worker.told_to_go && !closed_at_ &&
      now_ - *worker.told_to_go < scenario_.spec.grace)
    fail(fmt::format("worker {} is killed before its grace is over", id.value));
}

// Those within Horovod's hvd.init cannot be told that their world is over.
void Judge::check_kill_while_loading(const Known& worker, WorkerId id) {
  const bool is_late = (join_passed_ && !horovods_) || worker.newcomer;
  if (is_late && !worker.was_member && now_ - worker.started_at < scenario_.spec.start_timeout * 10)
    fail(fmt::format("worker {} is killed while it loads", id.value));
}

}  // namespace trainrun::sim
