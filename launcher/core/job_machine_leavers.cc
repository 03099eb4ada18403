// Ranks that have no place in the next world: they are told, have their time, and are ended when it is over.
#include <algorithm>
#include <csignal>

#include "launcher/core/job_machine.h"

namespace trainrun::core {

// Ranks for which their host has no slot any more: its last ones.
std::set<WorkerId> JobMachine::beyond_slots() const {
  std::set<WorkerId> out;
  if (spec_.oversubscribe) return out;
  for (const auto host : roster_.shrunk()) {  // others have no more than they had slots for
    std::vector<std::pair<Rank, WorkerId>> ranks;
    for (const auto id : world_.on(host))
      if (const auto& worker = world_.at(id); worker.survives()) ranks.emplace_back(worker.seat.rank, id);
    std::sort(ranks.begin(), ranks.end());
    for (auto i = static_cast<std::size_t>(slots_on(host)); i < ranks.size(); ++i)
      out.insert(ranks[i].second);
  }
  return out;
}

// Who has no place in the next world, because its host goes or has fewer slots. Those that hand over their
// state have one, unless they were told otherwise before.
std::set<WorkerId> JobMachine::leavers() const {
  auto out = beyond_slots();
  const auto hand_over = handing_over() > 0 ? kept_hosts() : std::set<HostIndex>{};
  for (const auto host : roster_.unwanted())
    for (const auto id : world_.on(host)) {
      const auto& worker = world_.at(id);
      const bool stays = hand_over.contains(host) && worker.fate < Fate::asked_to_leave;
      if (worker.member && worker.state != WorkerState::finished && !stays) out.insert(id);
    }
  return out;
}

void JobMachine::dismiss(WorkerId id) {
  const auto& worker = world_.at(id);
  const bool hears = worker.member || worker.waits;  // else nothing connects it to the rendezvous
  if (worker.member) had_not_finished_.push_back(who(worker));
  world_.change(id, [](Worker& it) { it.member = it.newcomer = false; });
  world_.doom(id, Fate::condemned);
  give_time_to_leave(id, spec_.grace);
  act(Dismiss{id});
  if (!hears) act(SignalWorkers{spec_.elastic.leave_signal, false, {id}});
}

// Whatever the next world will be, it has no place on a host that leaves, nor for one that was told to go.
void JobMachine::dismiss_leavers() {
  if (survivors_stay_ && somebody_left_well_) return;  // they may finish
  for (const auto& [id, worker] : world_.all()) {
    if (!worker.survives() || !(worker.fate == Fate::asked_to_leave || roster_.at(worker.seat.host).leaving))
      continue;
    dismiss(id);
    if (!unfinished_) unfinished_ = Disruption{.cause = CauseKind::hosts_left, .planned = true};
  }
}

// Each has its own time, from when it was told; one whose host came back meanwhile, and goes again, has all
// of it again.
void JobMachine::give_time_to_leave(WorkerId id, Duration time) {
  world_.change(id, [this, time](Worker& it) {
    if (!it.leaves_by || *it.leaves_by <= now_) it.leaves_by = now_ + time;
  });
}

// What they load is lost with their hosts, and all others wait for them: there is nothing to settle.
bool JobMachine::only_newcomers_leave() const {
  const auto go = leavers();
  return !announced_ && change_needed().second &&
         std::none_of(go.begin(), go.end(), [this](WorkerId id) { return world_.at(id).has_state; });
}

// Members that were told to leave a world that goes on; at the end of a program they may finish.
std::vector<WorkerId> JobMachine::asked_to_leave() const {
  std::vector<WorkerId> out;
  if (!announced_ || !world_stands() || program_ends()) return out;
  for (const auto id : leavers())
    if (const auto& worker = world_.at(id); worker.fate >= Fate::asked_to_leave && worker.alive())
      out.push_back(id);
  return out;
}

void JobMachine::await_leavers() {
  std::optional<Instant> next;
  const auto wait_for = [&](WorkerId id) {
    if (const auto by = world_.at(id).leaves_by) next = std::min(next.value_or(*by), *by);
  };
  for (const auto id : world_.dismissed()) wait_for(id);
  for (const auto id : asked_to_leave()) wait_for(id);
  if (!next) return disarm(Deadline::leave);
  arm(Deadline::leave, std::max(now_, *next));
}

// That of some who were dismissed, or of members on hosts that leave.
void JobMachine::grace_of_leavers_over() {
  std::vector<WorkerId> late;
  std::map<HostIndex, Instant> bad;  // since when their ranks should be gone
  for (const auto id : std::set<WorkerId>(world_.dismissed())) {
    const auto& worker = world_.at(id);
    if (!worker.leaves_by || *worker.leaves_by > now_) continue;
    if (const auto come = worker.killed() ? news_come(worker.seat.host, *worker.leaves_by) : std::nullopt) {
      give_time_to_leave(id, *come - now_);
      continue;
    }
    if (worker.killed()) {
      if (!has_live_members(worker.seat.host))
        bad.emplace(worker.seat.host, *worker.leaves_by);  // else its slot stays taken
    } else {
      late.push_back(id);
      world_.doom(id, Fate::killed);
    }
    give_time_to_leave(id, after_kill);
  }
  if (!late.empty()) act(SignalWorkers{SIGKILL, false, late});
  for (const auto& [host, since] : bad) give_up_stuck(host, since);
  if (!bad.empty() && phase_ != Phase::running) consider_change();
  auto due = asked_to_leave();
  std::erase_if(due, [this](WorkerId id) { return world_.at(id).leaves_by > now_; });
  if (due.empty()) return await_leavers();
  for (const auto id : due) world_.doom(id, Fate::condemned);
  disrupt(planned_change_);
}

}  // namespace trainrun::core
