// Hosts: who is dialled, who may be used, who leaves.
#include "launcher/core/job_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "host-discovery/host_key.h"

namespace trainrun::core {
namespace {

// An agent whose launcher fell silent notices later than the launcher does, and then ends its workers.
constexpr Duration agent_notices_later = seconds(2);

}  // namespace

std::string to_string(JobMachine::HostState state) {
  switch (state) {
    case JobMachine::HostState::gone:
      return "absent";
    case JobMachine::HostState::dialling:
      return "dialling";
    case JobMachine::HostState::ready:
      return "ready";
    case JobMachine::HostState::stopping:
      return "stopping";
  }
  return {};
}

std::string JobMachine::host_name(HostIndex host) const { return roster_.at(host).host.name; }

void JobMachine::dial(HostIndex index) {
  roster_.become(index, HostState::dialling);
  act(DialHost{index});
}

void JobMachine::give_up_host(HostIndex index) {
  act(AbandonHost{index});
  roster_.change(index, [](HostEntry& it) { it.sweeping = it.inspecting = false; });
  roster_.left(index, now_);
}

// As many hosts are held as the largest world and its spares need, in the order of the list.
void JobMachine::dial_wanted() {
  for (const auto index : roster_.to_dial(now_)) dial(index);
  watch_hosts();
}

// Wakes us when a rest ends, or a host is to be dialled again.
void JobMachine::watch_hosts() {
  if (const auto next = roster_.next_change(now_)) return arm(Deadline::hosts, *next);
  disarm(Deadline::hosts);
}

// Only one that failed has an error.
void JobMachine::forget_error(HostIndex index) {
  if (roster_.at(index).failed_dials == 0) return;
  std::erase_if(verdict_.host_errors, [index](const auto& it) { return it.first == index; });
}

void JobMachine::host_ready(HostIndex index) {
  forget_error(index);
  roster_.change(index, [](HostEntry& it) {
    it.state = HostState::ready;
    it.failed_dials = 0;
    it.retry_at = {};
    it.refused = false;
    it.note.clear();
  });
}

void JobMachine::on(const HostLost& event) {
  const auto& host = roster_.at(event.host);
  if (host.state == HostState::gone) return ignore("host lost", "it was given up");
  const auto before = host.state;
  roster_.change(event.host, [&](HostEntry& it) {
    it.sweeping = it.inspecting = false;
    it.note = event.reason;
  });
  const bool left = host.leaving;
  const bool had_ranks = has_live_members(event.host);
  const bool serves = host.listed || (host.kept && kept_ones_serve(false));
  const bool expected = left || !serves;
  // One that is only unlisted may have been kept; that it is gone now must not look like its leaving.
  const bool told = !expected || (!left && had_ranks);
  roster_.left(event.host, now_);
  if (still_changes()) {
    if (before == HostState::ready && !left && !event.gave_us_up)
      roster_.host_failed(event.host, now_, spec_.host_timeout + agent_notices_later);
    roster_.could_not_be_reached(event.host, now_);
    act(AskForHosts{});
  }
  switch (phase_) {
    case Phase::gathering:
      verdict_.host_errors.emplace_back(
          event.host, Error{Code::lost, fmt::format("{}: {}", host_name(event.host), event.reason),
                            "see what ended the agent there"});
      if (elastic()) return try_form();
      return any_dialling() ? void() : give_up_gathering();
    case Phase::forming:
    case Phase::running: {
      const bool planned = phase_ == Phase::forming && !world_.begun() &&
                           std::any_of(world_.seats().begin(), world_.seats().end(),
                                       [&](const Seat& seat) { return seat.host == event.host; });
      const bool needed = had_ranks || planned || !elastic();
      std::vector<RankRef> newcomers;
      for (const auto id : world_.on(event.host))
        if (world_.at(id).may_join()) newcomers.push_back(who(world_.at(id)));
      lose_workers_of(event.host, event.reason, event.closed);
      if (!needed) {
        if (!expected)
          tell(notice::HostLost{named(event.host), event.reason, false, false, std::move(newcomers)});
        return consider_change();
      }
      verdict_.host = event.host;
      verdict_.why = cause::LinkLost{event.reason};
      verdict_.gave_us_up = event.gave_us_up;
      if (expected && told) tell(notice::HostLost{named(event.host), event.reason, false, true});
      return disrupt({Outcome::Kind::host_lost, cause::HostLost{named(event.host), event.reason},
                      told ? CauseKind::host_lost : CauseKind::hosts_left, expected, event.host,
                      event.heard});
    }
    case Phase::draining:
      // What ends the job ends agents, too, as where a batch system cancels it. It makes none of them silent.
      if (told && !(event.closed && verdict_.kind == Outcome::Kind::user_signal))
        tell_lost_host(event.host, event.reason, had_ranks);
      lose_workers_of(event.host, event.reason, event.closed);
      return after_worker_change();
    case Phase::cooling:
      if (told) tell_lost_host(event.host, event.reason, had_ranks);
      lose_workers_of(event.host, event.reason, event.closed);
      return try_form();
    case Phase::closing:
      if (before == HostState::stopping) {
        tell(notice::HostLostAtEnd{named(event.host), event.reason});
      }
      unplaced_are_gone(event.host);
      return finish_if_all_gone();
    case Phase::done:
      return ignore("host lost", "all is over");
  }
}

void JobMachine::lose_workers_of(HostIndex host, const std::string& reason, bool closed) {
  for (const auto id : world_.on(host)) {
    if (world_.at(id).state == WorkerState::finished) continue;
    world_.change(id, [&](Worker& worker) {
      if (worker.state != WorkerState::exited) {
        worker.status = ExitStatus::lost(reason);
        if (closed) worker.departure = Departure::with_agent;
        worker.since = now_;
      }
      worker.state = WorkerState::finished;
      worker.newcomer = false;
    });
  }
}

// ---- a list that changes

HostIndex JobMachine::host_of(const Host& host) {
  const auto [index, is_new] = roster_.find_or_add(host);
  if (is_new) act(AddHost{index, host});
  return index;
}

void JobMachine::on(const HostsDiscovered& event) {
  if (!still_changes()) return ignore("hosts", "the job does not change any more");
  discovery_problem_.emplace();
  std::vector<HostIndex> order;
  std::set<HostIndex> listed;
  std::vector<HostSlots> kept;
  for (const auto& found : event.hosts) {
    const auto index = host_of(found);
    if (!listed.insert(index).second) continue;
    const int before = slots_on(index);
    roster_.change(index, [&found](HostEntry& it) {
      if (!it.listed && it.state == HostState::gone) {  // it is back
        it.leaving = it.removed = false;
        it.away_until = {};
      }
      it.host.slots = found.slots;
      it.host.slots_given = found.slots_given;
    });
    slots_changed(index);
    if (slots_on(index) < before && has_live_members(index)) kept.push_back({named(index), slots_on(index)});
    order.push_back(index);
  }
  std::vector<std::string> come, go;
  std::vector<HostIndex> keep;
  for (const auto index : order)
    if (!roster_.at(index).listed) come.push_back(host_name(index));
  if (!come.empty()) newcomers_may_come();
  for (const auto index : roster_.order()) {
    if (listed.contains(index)) continue;
    if (const auto& host = roster_.at(index); host.added && !host.removed)
      order.push_back(index);  // no list of others takes away what the user gave
    else if (!host.removed) {
      go.push_back(host_name(index));
      // Between two generations those who live are the only ones that hold the state.
      if (host.state == HostState::ready && (!world_.ranks_on(index).empty() || has_live_members(index)))
        keep.push_back(index);
    }
  }
  roster_.list(std::move(order));
  for (const auto index : keep) roster_.change(index, [](HostEntry& it) { it.kept = true; });
  if (!come.empty() && world_.begun()) tell(notice::HostsFound{std::move(come)});
  // A removal that nothing follows from must not look like one that was not seen.
  const bool stays = phase_ == Phase::running && !change_needed().second;
  const int least = least_size();
  const bool stay_for_it = stays && !leavers().empty();
  const bool hands_over = stays && handing_over() > 0;
  const bool serve_again = phase_ != Phase::running && !keep.empty() && kept_ones_serve(true);
  const bool are_kept = (stay_for_it && !hands_over) || serve_again;
  if (!go.empty())
    tell(notice::HostsUnlisted{std::move(go), are_kept ? std::optional(least) : std::nullopt, hands_over});
  if (!kept.empty() && stay_for_it) tell(notice::SlotsKept{std::move(kept), least});
  consider_change();
}

// Hosts that are not listed any more and serve nobody go; so does one that leaves.
void JobMachine::release_unused() {
  const bool kept_serve = !roster_.unwanted().empty() && kept_ones_serve(false);
  for (const auto index : std::set<HostIndex>(roster_.unwanted())) {
    if (has_live_members(index)) continue;
    const auto& host = roster_.at(index);
    if (host.kept && !host.leaving && kept_serve) continue;
    if (host.state == HostState::dialling) give_up_host(index);
    if (host.state != HostState::ready || world_.has_unfinished(index) || host.sweeping) continue;
    act(StopHost{index});
    roster_.become(index, HostState::stopping);
  }
}

void JobMachine::leave_host(HostIndex index, const std::string& reason, bool by_user) {
  if (roster_.at(index).leaving) return ignore("host leaving", "it is known");
  roster_.change(index, [](HostEntry& it) { it.leaving = true; });
  review_newcomers();
  tell(notice::HostLeaves{named(index), reason, by_user});
  act(AskForHosts{});
  if (phase_ == Phase::running && has_live_members(index) && !program_ends())  // else they may finish
    return change_world({Outcome::Kind::worker_failed, cause::HostLeaves{named(index), reason, by_user},
                         CauseKind::hosts_left, true},
                        false, true);
  if (phase_ == Phase::cooling || (phase_ == Phase::forming && !world_.begun())) {
    dismiss_leavers();
    await_leavers();
  }
  consider_change();
}

void JobMachine::on(const HostLeaving& event) {
  if (still_changes()) return leave_host(event.host, event.reason, false);
  if (elastic()) return ignore("host leaving", "the job does not change any more");
  switch (phase_) {
    case Phase::gathering:
    case Phase::forming:
    case Phase::running:
      // The agent still serves, so its ranks have their grace, and what they say is heard.
      verdict_.host = event.host;
      verdict_.why = cause::HostLeaves{named(event.host), event.reason, false};
      return end_because(Outcome::Kind::host_lost);
    case Phase::draining:
    case Phase::cooling:
    case Phase::closing:
    case Phase::done:
      return ignore("host leaving", "the job is ending");
  }
}

void JobMachine::on(const RemoveHost& event) {
  if (!still_changes()) return ignore("remove host", "the job does not change any more");
  const auto key = hosts::name_key(event.name);
  for (std::uint32_t i = 0; i < roster_.size(); ++i) {
    if (hosts::name_key(host_name({i})) != key || roster_.at({i}).removed) continue;
    roster_.change({i}, [](HostEntry& it) {
      it.removed = true;
      it.added = false;
    });
    leave_host({i}, {}, true);
  }
}

void JobMachine::on(const AddHosts& event) {
  if (!still_changes()) return ignore("add hosts", "the job does not change any more");
  for (const auto& given : event.hosts) {
    const auto index = host_of(given);
    roster_.change(index, [&given](HostEntry& it) {
      it.host.slots = given.slots;
      it.stopped_slots = 0;
      it.added = it.added || !it.listed;
      it.leaving = it.removed = false;
      it.retry_at = {};
      it.away_until = {};
    });
    roster_.list(index);
    roster_.forgive(index);
    slots_changed(index);
  }
  newcomers_may_come();
  consider_change();
}

bool JobMachine::usable(HostIndex index, const std::set<HostIndex>& forgiven) const {
  return roster_.usable(index, now_, forgiven);
}

}  // namespace trainrun::core
