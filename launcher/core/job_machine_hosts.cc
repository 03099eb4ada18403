// Hosts: who is dialled, who may be used, who leaves.
#include "launcher/core/job_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "host-discovery/host_key.h"
#include "launcher/base/strings.h"

namespace trainrun::core {
namespace {

constexpr Duration first_retry = seconds(1), longest_retry = seconds(30);
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

std::string JobMachine::host_name(HostIndex host) const { return hosts_.at(host.value).host.name; }

bool JobMachine::any_dialling() const {
  return std::any_of(hosts_.begin(), hosts_.end(),
                     [](const auto& host) { return host.state == HostState::dialling; });
}

void JobMachine::dial(HostIndex index) {
  hosts_.at(index.value).state = HostState::dialling;
  act(DialHost{index});
}

void JobMachine::give_up_host(HostIndex index) {
  act(AbandonHost{index});
  auto& host = hosts_.at(index.value);
  host.sweeping = host.inspecting = false;
  host_left(index);
}

// Resting hosts that must serve all the same: without them the smallest world could not be held, now or with
// those that are being dialled. One that could not be reached holds nothing: the next must serve in its
// place.
std::set<HostIndex> JobMachine::forgiven() const {
  const int least = spec_.elastic.min_np > 0 ? spec_.elastic.min_np : spec_.world_size();
  int held = 0;
  std::vector<std::pair<Instant, HostIndex>> resting;
  for (const auto index : order_) {
    const auto& host = hosts_.at(index.value);
    if (host.leaving || host.refused || host.away_until > now_) continue;
    if (const auto until = ledger_.rests_until(index, now_))
      resting.emplace_back(*until, index);
    else if (host.state == HostState::ready || host.failed_dials == 0)
      held += slots_on(index);
  }
  std::sort(resting.begin(), resting.end());
  std::set<HostIndex> out;
  for (const auto& [until, index] : resting) {
    if (held >= least) break;
    out.insert(index);
    const auto& host = hosts_.at(index.value);
    if (host.state == HostState::ready || host.failed_dials == 0) held += slots_on(index);
  }
  return out;
}

bool JobMachine::usable(HostIndex index, const std::set<HostIndex>& pardoned) const {
  const auto& host = hosts_.at(index.value);
  return host.listed && !host.leaving && !host.refused && host.away_until <= now_ &&
         (!ledger_.rests(index, now_) || pardoned.contains(index));
}

// As many hosts are held as the largest world and its spares need, in the order of the list; those that have
// failed come last, and a host more is tried for each of them: a good one behind many bad ones is found.
void JobMachine::dial_wanted() {
  constexpr int most_instead = 64;
  const int most = spec_.elastic.max_np > 0 ? spec_.elastic.max_np : spec_.world_size();
  int held = 0, ready = 0, failed = 0;
  const auto pardoned = forgiven();
  for (const auto index : order_) {
    const auto& host = hosts_.at(index.value);
    if (!usable(index, pardoned)) continue;
    if (host.state == HostState::ready || host.state == HostState::dialling) held += slots_on(index);
    if (host.state == HostState::ready) ready += slots_on(index);
    if (host.state == HostState::gone && host.failed_dials > 0) ++failed;
  }
  const int wanted = most + spec_.elastic.spares + (ready < most ? std::min(failed, most_instead) : 0);
  for (const bool again : {false, true}) {
    for (const auto index : order_) {
      if (held >= wanted) break;
      const auto& host = hosts_.at(index.value);
      if ((host.failed_dials > 0) != again || host.state != HostState::gone || host.retry_at > now_) continue;
      if (!usable(index, pardoned) || slots_on(index) == 0) continue;
      held += slots_on(index);
      dial(index);
    }
  }
  watch_hosts();
}

// Wakes us when a rest ends, or a host is to be dialled again.
void JobMachine::watch_hosts() {
  std::optional<Instant> next;
  const auto at_least = [&next](Instant at) { next = next ? std::min(*next, at) : at; };
  for (const auto index : order_) {
    const auto& host = hosts_.at(index.value);
    if (host.leaving) continue;
    if (const auto until = ledger_.rests_until(index, now_)) at_least(*until);
    if (host.state == HostState::gone && host.retry_at > now_) at_least(host.retry_at);
    if (host.away_until > now_) at_least(host.away_until);
  }
  if (next) return arm(Deadline::hosts, *next);
  disarm(Deadline::hosts);
}

void JobMachine::host_ready(HostIndex index) {
  auto& host = hosts_.at(index.value);
  host.state = HostState::ready;
  host.failed_dials = 0;
  host.refused = false;
  host.note.clear();
  std::erase_if(verdict_.host_errors, [index](const auto& it) { return it.first == index; });
}

void JobMachine::host_unusable(HostIndex index) {
  auto& host = hosts_.at(index.value);
  auto pause = first_retry;
  for (int i = 0; i < host.failed_dials && pause < longest_retry; ++i) pause *= 2;
  ++host.failed_dials;
  host.retry_at = now_ + std::min(pause, longest_retry);
}

void JobMachine::on(const HostLost& event) {
  auto& host = hosts_.at(event.host.value);
  if (host.state == HostState::gone) return ignore("host lost", "it was given up");
  const auto before = host.state;
  host.sweeping = host.inspecting = false;
  host.note = event.reason;
  const bool left = host.leaving;
  const bool had_ranks = has_live_members(event.host);
  const bool expected = left || !host.listed;
  // One that is only unlisted may have been kept; that it is gone now must not look like its leaving.
  const bool told = !expected || (!left && had_ranks);
  host_left(event.host);
  if (still_changes()) {
    if (before == HostState::ready && !left && !event.gave_us_up)
      ledger_.host_failed(event.host, now_, spec_.host_timeout + agent_notices_later);
    host_unusable(event.host);
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
      lose_workers_of(event.host, event.reason, event.closed);
      if (!needed) {
        if (!expected) tell(notice::HostLost{named(event.host), event.reason, false, false});
        return dial_wanted();
      }
      verdict_.host = event.host;
      verdict_.why = cause::LinkLost{event.reason};
      verdict_.gave_us_up = event.gave_us_up;
      if (expected && told) tell(notice::HostLost{named(event.host), event.reason, false, true});
      return trouble({Outcome::Kind::host_lost, cause::HostLost{named(event.host), event.reason},
                      told ? CauseKind::host_lost : CauseKind::hosts_left, expected, event.host,
                      event.heard});
    }
    case Phase::draining:
      if (told) tell_lost_host(event.host, event.reason, had_ranks);
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
    });
  }
}

// ---- a list that changes

HostIndex JobMachine::host_of(const Host& host) {
  const auto key = hosts::host_key(host);
  for (std::uint32_t i = 0; i < hosts_.size(); ++i)
    if (hosts::host_key(hosts_[i].host) == key) return {i};
  const HostIndex index{static_cast<std::uint32_t>(hosts_.size())};
  HostEntry entry;
  entry.host = host;
  entry.listed = false;
  hosts_.push_back(std::move(entry));
  act(AddHost{index, host});
  return index;
}

void JobMachine::on(const HostsDiscovered& event) {
  if (!still_changes()) return ignore("hosts", "the job does not change any more");
  discovery_problem_.emplace();
  std::vector<HostIndex> order;
  std::vector<HostSlots> kept;
  for (const auto& found : event.hosts) {
    const auto index = host_of(found);
    auto& host = hosts_.at(index.value);
    if (std::find(order.begin(), order.end(), index) != order.end()) continue;
    if (!host.listed && host.state == HostState::gone) {  // it is back
      host.leaving = host.removed = false;
      host.away_until = {};
    }
    const int before = slots_on(index);
    host.host.slots = found.slots;
    host.host.slots_given = found.slots_given;
    slots_changed(index);
    if (slots_on(index) < before && has_live_members(index)) kept.push_back({named(index), slots_on(index)});
    order.push_back(index);
  }
  std::vector<std::string> come, go;
  for (const auto index : order)
    if (!std::exchange(hosts_.at(index.value).listed, true)) come.push_back(host_name(index));
  for (const auto index : order_) {
    if (std::find(order.begin(), order.end(), index) != order.end()) continue;
    auto& host = hosts_.at(index.value);
    if (host.added && !host.removed) {  // no list of others takes away what the user gave
      order.push_back(index);
      continue;
    }
    host.listed = false;
    go.push_back(host_name(index));
  }
  order_ = std::move(order);
  if (!come.empty() && world_.begun()) tell(notice::HostsFound{std::move(come)});
  // A removal that nothing follows from must not look like one that was not seen.
  const bool stays = phase_ == Phase::running && !change_needed().second;
  const int least = spec_.elastic.min_np > 0 ? spec_.elastic.min_np : spec_.world_size();
  const bool stay_for_it = stays && !leavers().empty();
  if (!go.empty())
    tell(notice::HostsUnlisted{std::move(go), stay_for_it ? std::optional(least) : std::nullopt});
  if (!kept.empty() && stay_for_it) tell(notice::SlotsKept{std::move(kept), least});
  consider_change();
}

// Hosts that are not listed any more and serve nobody go; so does one that leaves.
void JobMachine::release_unused() {
  for (std::uint32_t i = 0; i < hosts_.size(); ++i) {
    auto& host = hosts_[i];
    const bool unwanted = !host.listed || host.leaving;
    if (!unwanted || has_live_members({i})) continue;
    const bool lives = world_.has_unfinished({i});
    if (host.state == HostState::dialling) give_up_host({i});
    if (host.state != HostState::ready || lives || host.sweeping) continue;
    act(StopHost{{i}});
    host.state = HostState::stopping;
  }
}

// The agent of a host that was told to stop is gone.
void JobMachine::host_left(HostIndex index) {
  auto& host = hosts_.at(index.value);
  host.state = HostState::gone;
  if (!host.leaving || host.removed) return;
  // It went by its own word, and may come back the same way. However few hosts there are, it is not asked
  // before the longest rest is over: whoever told it to leave wants it empty.
  host.leaving = false;
  host.away_until = now_ + spec_.elastic.cooldown_max;
}

void JobMachine::leave_host(HostIndex index, const std::string& reason, bool by_user) {
  auto& host = hosts_.at(index.value);
  if (host.leaving) return ignore("host leaving", "it is known");
  host.leaving = true;
  tell(notice::HostLeaves{named(index), reason, by_user});
  act(AskForHosts{});
  if (phase_ == Phase::running && has_live_members(index) && !program_ends())  // else they may finish
    return change_world({Outcome::Kind::worker_failed, cause::HostLeaves{named(index), reason, by_user},
                         CauseKind::hosts_left, true},
                        false, true);
  if (phase_ == Phase::cooling || (phase_ == Phase::forming && !world_.begun())) {
    dismiss_leavers();
    await_dismissed();
  }
  consider_change();
}

void JobMachine::on(const HostLeaving& event) {
  if (!still_changes()) return ignore("host leaving", "the job does not change any more");
  leave_host(event.host, event.reason, false);
}

void JobMachine::on(const RemoveHost& event) {
  if (!still_changes()) return ignore("remove host", "the job does not change any more");
  const auto key = hosts::name_key(event.name);
  for (std::uint32_t i = 0; i < hosts_.size(); ++i)
    if (hosts::name_key(hosts_[i].host.name) == key && !hosts_[i].removed) {
      hosts_[i].removed = true;
      hosts_[i].added = false;
      leave_host({i}, {}, true);
    }
}

void JobMachine::on(const AddHosts& event) {
  if (!still_changes()) return ignore("add hosts", "the job does not change any more");
  for (const auto& given : event.hosts) {
    const auto index = host_of(given);
    auto& host = hosts_.at(index.value);
    host.host.slots = given.slots;
    if (!host.listed) host.added = true;
    host.listed = true;
    host.leaving = host.removed = false;
    stopped_slots_.erase(index);
    ledger_.forgive(index);
    host.retry_at = now_;
    host.away_until = {};
    slots_changed(index);
    if (std::find(order_.begin(), order_.end(), index) == order_.end()) order_.push_back(index);
  }
  consider_change();
}

}  // namespace trainrun::core
