// The next generation: when it forms and of whom, and changes that are no failures.
#include "launcher/core/job_machine.h"

#include <algorithm>
#include <csignal>

namespace trainrun::core {
// ---- the next generation

void JobMachine::try_form() {
  if (phase_ != Phase::gathering && phase_ != Phase::cooling) return;
  review_newcomers();
  release_unused();
  const bool nobody = world_.counts().survivors == 0;
  const bool ending = survivors_stay_ && somebody_left_well_;
  if (ending && nobody) return nobody_is_left();
  if (ending && !others_have_asked()) return;
  if (!ending) dial_wanted();
  if (armed_.contains(Deadline::backoff)) return;
  if (ending) {
    if (may_go_on_without()) form_next(static_cast<int>(staying().size()));
    return;
  }
  const int held = held_by_resting();
  const int slots = slots_for_next(false) + held;
  const int size = world_size_on(spec_, slots);
  const int possible = world_size_on(spec_, slots_for_next(true) + held);
  if (phase_ == Phase::gathering) {
    const bool more_may_come = any_dialling() || spec_.elastic.discovery.kind != DiscoveryKind::none;
    const bool patient = armed_.contains(Deadline::start) && more_may_come;
    const bool complete = size >= possible && size >= spec_.world_size() && first_choice_is_ready(size);
    if (size > 0 && (!patient || complete)) return form_next(size);
    if (!more_may_come) return give_up_gathering();
    if (!armed_.contains(Deadline::start)) {
      if (start_timeout_decides()) return end_without_hosts(spec_.start_timeout, Limit::start_timeout);
      return wait_for_hosts(slots);
    }
    return tell_what_is_there(slots);
  }
  if (size == 0) return wait_for_hosts(slots);
  // A world that starts anew takes slots as they come: those that were dismissed go first.
  if (slots_are_held() && staying().empty()) return await_leavers();
  if (possible > size && !survivors_complete(size)) {
    if (!settle_over_) {
      if (!armed_.contains(Deadline::settle)) arm(Deadline::settle, now_ + spec_.elastic.settle);
      return;
    }
  }
  form_next(size);
}

// With spares there are more hosts than needed: which serve is the list's choice, not that of who is quicker.
bool JobMachine::first_choice_is_ready(int size) const {
  int held = 0;
  for (const auto& room : rooms(true)) {
    if (held >= size) return true;
    if (roster_.at(room.host).state != HostState::ready) return false;
    held += room.slots;
  }
  return true;
}

// A start that waits for hosts nobody has named yet must not look like one that hangs.
void JobMachine::tell_what_is_there(int slots) {
  if (any_dialling()) return;
  tell_host_errors();
  if (std::exchange(slots_told_, slots) == slots) return;
  // Too few for the smallest world: without a --start-timeout of the user they are waited for even longer.
  const bool longer = world_size_on(spec_, slots) == 0 && !start_timeout_decides();
  const auto limit = longer ? spec_.elastic.timeout : gathering_timeout();
  tell(notice::Gathering{slots, spec_.world_size(), began_ + limit - now_,
                         limit == spec_.elastic.timeout ? Limit::elastic_timeout : Limit::start_timeout});
}

// A world that lost nobody need not wait for hosts that may come: it can grow later. Nor one to which
// newcomers come when they are ready.
bool JobMachine::survivors_complete(int size) const {
  if (!survivors_stay_) return false;
  const bool alone = grows_later() || growth_waits();
  return static_cast<int>(staying().size()) >= (alone ? std::min(least_size(), size) : size);
}

void JobMachine::wait_for_hosts(int slots) {
  tell_host_errors();
  if (armed_.contains(Deadline::world)) return;
  const int least = least_size();
  // At the start the time counts from the start: --start-timeout is a part of it.
  const auto until = (phase_ == Phase::gathering ? began_ : now_) + spec_.elastic.timeout;
  act(AskForHosts{});
  arm(Deadline::world, std::max(now_, until));
  if (until <= now_) return;
  tell(notice::WaitingForHosts{slots, least, awaited_hosts(), until - now_});
}

void JobMachine::end_without_hosts(Duration after, Limit limit) {
  cause::TooFewHosts cause{after, limit};
  explain_missing_hosts(cause);
  verdict_.why = std::move(cause);
  end_because(Outcome::Kind::no_hosts);
}

void JobMachine::form_next(int size) {
  settle_over_ = false;
  tell_host_errors();
  verdict_.host_errors.clear();
  verdict_.gave_us_up = false;
  errors_told_.clear();
  const Generation next{world_.generation().value + 1};
  std::set<HostIndex> before;
  for (const auto& seat : world_.seats()) before.insert(seat.host);
  const auto alive = staying();
  const bool in_place = survivors_stay_;
  std::vector<RankRef> joined;
  if (alive.empty()) {
    survivors_stay_ = somebody_left_well_ = false;
    newcomers_may_come();
    finished_.reset();
    owed_.reset();
    world_elastic_ = false;
    world_.plan(replan_all(spec_, next, world_.seats(), rooms_for_next(false), size));
  } else {
    // No healthy rank is ended for the sake of a spare slot, or since its host takes no new one.
    size = std::max(size, std::min(static_cast<int>(alive.size()), most_size()));
    const auto newcomers = joining(static_cast<int>(alive.size()), size);
    world_.plan(plan_around(next, alive, newcomers, size));
    for (std::size_t i = 0; i < newcomers.size(); ++i) {
      joined.push_back(who(*newcomers[i]));
      joined.back().rank = {static_cast<std::uint32_t>(alive.size() + i)};
    }
  }
  // Where one goes, another may come in its place, and only now is known which.
  if (auto* change = changed_by_ ? std::get_if<cause::HostsChanged>(&*changed_by_) : nullptr) {
    change->came.clear();
    std::set<HostIndex> came;
    for (const auto& seat : world_.seats())
      if (!before.contains(seat.host) && came.insert(seat.host).second)
        change->came.push_back(host_name(seat.host));
  }
  if (auto* change = changed_by_ ? std::get_if<cause::RanksReady>(&*changed_by_) : nullptr)
    change->ranks = std::move(joined);
  kept_ = static_cast<int>(
      std::count_if(alive.begin(), alive.end(), [](const Worker* worker) { return worker->has_state; }));
  kept_ = std::min(kept_, world_.size());
  if (in_place && kept_ == 0) tell_that_state_is_lost();
  verdict_.generation = next;
  for (std::uint32_t i = 0; i < roster_.size(); ++i)
    roster_.change({i}, [slots = slots_on({i})](HostEntry& it) { it.slots_then = slots; });
  form();
}

// So many ranks, or as many as live and are ready, if others can follow.
Placement JobMachine::plan_around(Generation next, const std::vector<const Worker*>& alive,
                                  const std::vector<const Worker*>& newcomers, int size) const {
  std::vector<Seat> sitting, vacated;
  std::set<std::pair<HostIndex, std::uint32_t>> taken;
  for (const auto* some : {&alive, &newcomers})
    for (const auto* worker : *some) {
      sitting.push_back(worker->seat);
      taken.emplace(worker->seat.host, worker->seat.slot);
    }
  for (const auto& seat : world_.seats())
    if (!taken.contains({seat.host, seat.slot})) vacated.push_back(seat);
  auto rooms = rooms_for_next(false);
  for (const auto id : world_.newcomers())
    if (const auto& seat = world_.at(id).seat; !taken.contains({seat.host, seat.slot}))
      for (auto& room : rooms)
        if (room.host == seat.host) room.busy.push_back(seat.slot);
  if (grows_later() || growth_waits())
    size = std::clamp(static_cast<int>(sitting.size()), std::min(least_size(), size), size);
  return replan_around(spec_, next, sitting, vacated, rooms, size,
                       horovod_ ? Numbering::of_horovod : Numbering::as_they_come);
}

// Ranks that came anew and never met the others live on, but hold nothing.
void JobMachine::tell_that_state_is_lost() {
  if (std::exchange(state_exists_, false)) tell(notice::StateLost{});
}

void JobMachine::world_runs() {
  enter(Phase::running);
  if (!elastic()) return;
  if (!survivors_stay_ || met_) tell_generation();
  consider_change();
}

void JobMachine::tell_generation() {
  // A host that was to leave may have been added again while its ranks stopped.
  if (const auto* leaves = changed_by_ ? std::get_if<cause::HostLeaves>(&*changed_by_) : nullptr;
      leaves != nullptr && !world_.ranks_on(leaves->host.index).empty())
    changed_by_ = cause::HostsChanged{.came = {leaves->host.name}};
  notice::GenerationFormed formed{world_.generation(), world_.size(),
                                  static_cast<int>(world_.placement().groups),
                                  std::exchange(changed_by_, std::nullopt)};
  if (survivors_stay_) formed.survivors = kept_;
  if (restarts_.since()) formed.took = now_ - *restarts_.since();
  count_lost_time();
  tell(std::move(formed));
  reported_ = world_.generation();
  arm(Deadline::steady, now_ + proves_itself);
  survivors_stay_ = false;
}

// Since the last restart began. Nothing, if no restart is under way.
void JobMachine::count_lost_time() { verdict_.lost_time += restarts_.over(now_); }

// ---- changes that are no failures

void JobMachine::consider_change() {
  switch (phase_) {
    case Phase::gathering:
    case Phase::cooling:
      return try_form();
    case Phase::draining:
      if (then_ == Then::end) return;
      return dial_wanted();
    case Phase::forming: {
      std::map<HostIndex, int> used;
      const bool kept_serve = !roster_.unwanted().empty() && (kept_ones_serve(false) || handing_over() > 0);
      const bool stale =
          !world_.begun() && std::any_of(world_.seats().begin(), world_.seats().end(), [&](const Seat& seat) {
            const auto& host = roster_.at(seat.host);
            return host.leaving || !(host.listed || (host.kept && kept_serve)) ||
                   (++used[seat.host] > slots_on(seat.host) && !spec_.oversubscribe);
          });
      if (!stale) {
        dial_wanted();
        return order_newcomers();
      }
      tell(notice::GenerationSkipped{world_.generation(), cause::ItsHostsLeave{}});
      enter(Phase::cooling);  // nobody was started there yet
      return try_form();
    }
    case Phase::running:
      break;
    case Phase::closing:
    case Phase::done:
      return;
  }
  dial_wanted();
  review_newcomers();
  order_newcomers();
  release_unused();
  if (survivors_stay_) {  // its members have not met yet
    if (only_newcomers_leave()) disrupt(describe_change(false, true));
    return;
  }
  if (const auto [come, leave] = change_needed(); come || leave) {
    if (grows_later() && !leave && all_newcomers_wait()) {  // nobody else will come soon
      if (announced_) return;
      disarm(Deadline::settle);
      return change_world(describe_change(true, false), true, false);
    }
    if (!armed_.contains(Deadline::settle)) arm(Deadline::settle, now_ + spec_.elastic.settle);
  } else {
    disarm(Deadline::settle);  // an undone change causes nothing
  }
}

// Hosts come that the world can grow on; hosts go that it runs on. Hosts that go are left only for a world
// that the others can hold, and once others hold its state.
std::pair<bool, bool> JobMachine::change_needed() const {
  if (somebody_left_well_ || somebody_finished_well()) return {false, false};  // the program is ending
  const int size = world_size_on(spec_, free_slots(false) + held_by_resting() + handing_over());
  const bool grows = grows_later() ? newcomers_are_ready(size) : size > world_.size() && !growth_waits();
  // Ranks that are known to meet, and have not, would load all of it again for hosts that come, which may
  // have failed before. A program of Horovod's that never meets is waited for until its world has proved
  // itself.
  const bool horovods = spec_.compat == Compat::horovod && armed_.contains(Deadline::steady);
  const bool loads = !met_ && (horovods || world_.counts().joined > 0);
  return {grows && !loads, size > 0 && !leavers().empty()};
}

void JobMachine::settled() {
  if (phase_ == Phase::cooling) {
    settle_over_ = true;
    return try_form();
  }
  if (phase_ != Phase::running) return ignore("settle", "the world is being formed");
  const auto [come, leave] = change_needed();
  if (!come && !leave) return;
  change_world(describe_change(come, leave), come, leave);
}

JobMachine::Disruption JobMachine::describe_change(bool come, bool leave) const {
  cause::HostsChanged change;
  for (const auto& room : rooms(false))
    if (come && !has_live_members(room.host) && (!grows_later() || has_ready_newcomer(room.host)))
      change.came.push_back(host_name(room.host));
  for (std::uint32_t i = 0; i < roster_.size(); ++i) {
    if (!has_live_members({i})) continue;
    const auto& host = roster_.at({i});
    if (leave && (host.leaving || !host.listed))
      change.left.push_back(host_name({i}));
    else if (const int slots = slots_on({i}); slots != host.slots_then)
      change.resized.push_back({named({i}), slots});
  }
  const auto kind = !change.left.empty()   ? CauseKind::hosts_left
                    : !change.came.empty() ? CauseKind::hosts_came
                                           : CauseKind::slots_changed;
  if (come && grows_later() && change == cause::HostsChanged{})
    return {Outcome::Kind::worker_failed, cause::RanksReady{}, CauseKind::ranks_ready, true};
  return {Outcome::Kind::worker_failed, std::move(change), kind, true};
}

void JobMachine::change_world(const Disruption& change, bool come, bool leave) {
  if (!in_place_now()) return disrupt(change);
  planned_change_ = change;
  Announce announce{world_.generation(), come, leave, {}};
  for (const auto id : leavers()) {
    world_.doom(id, Fate::asked_to_leave);
    give_time_to_leave(id, spec_.grace);
    announce.leaving.push_back(id);
    planned_change_.kind = Outcome::Kind::host_lost;
    planned_change_.host = world_.at(id).seat.host;
  }
  announced_ = true;
  act(std::move(announce));
  if (leave) await_leavers();
}

}  // namespace trainrun::core
