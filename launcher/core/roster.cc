#include "launcher/core/roster.h"

#include <algorithm>

#include "host-discovery/host_key.h"
#include "launcher/core/replan.h"

namespace trainrun::core {
namespace {

constexpr Duration first_retry = seconds(1), longest_retry = seconds(30);

}  // namespace

Roster::Roster(const JobSpec& job, bool listed)
    : job_(job), ledger_(job.elastic.cooldown_min, job.elastic.cooldown_max) {
  for (const auto& host : job.hosts.hosts) {
    const HostIndex index{static_cast<std::uint32_t>(hosts_.size())};
    hosts_.push_back({.host = host, .listed = listed});
    known_.emplace(hosts::host_key(host), index);
    if (listed) order_.push_back(index);
    count(index, +1);
  }
}

std::pair<HostIndex, bool> Roster::find_or_add(const Host& host) {
  const HostIndex next{static_cast<std::uint32_t>(hosts_.size())};
  const auto [it, is_new] = known_.emplace(hosts::host_key(host), next);
  if (!is_new) return {it->second, false};
  hosts_.push_back({.host = host});
  count(next, +1);
  return {next, true};
}

const std::vector<HostIndex>& Roster::order() const {
  visited_ += order_.size();
  return order_;
}

const std::set<HostIndex>& Roster::others() const {
  visited_ += others_.size();
  return others_;
}

void Roster::list(std::vector<HostIndex> order) {
  const auto before = std::exchange(order_, std::move(order));
  const std::set<HostIndex> now(order_.begin(), order_.end());
  visited_ += before.size() + order_.size();
  for (const auto index : before)
    if (!now.contains(index)) change(index, [](HostEntry& entry) { entry.listed = false; });
  for (const auto index : order_)
    if (!at(index).listed) change(index, [](HostEntry& entry) { entry.listed = true, entry.kept = false; });
}

void Roster::list(HostIndex index) {
  if (at(index).listed) return;
  order_.push_back(index);
  change(index, [](HostEntry& entry) { entry.listed = true, entry.kept = false; });
}

int Roster::slots_on(HostIndex index) const {
  const auto& entry = at(index);
  return std::max(0, slots_of(job_, entry.host) - entry.stopped_slots);
}

int Roster::smallest_world() const {
  return job_.elastic.min_np > 0 ? job_.elastic.min_np : job_.world_size();
}

int Roster::slots_without(std::optional<HostIndex> without, Instant now) const {
  int sum = 0;
  for (const int slots : plain_slots_) sum += slots;
  if (without && plain(*without)) sum -= slots_on(*without);
  for (const auto index : others()) {
    const auto& entry = at(index);
    const bool may_come = entry.state == HostState::ready || entry.failed_dials == 0;
    if (index != without && !entry.leaving && !entry.refused && entry.away_until <= now && may_come)
      sum += slots_on(index);
  }
  return sum;
}

std::set<HostIndex> Roster::forgiven(Instant now) const {
  std::set<HostIndex> out;
  if (others_.empty()) return out;
  int held = 0;
  for (const int slots : plain_slots_) held += slots;
  std::vector<std::pair<Instant, HostIndex>> resting;
  for (const auto index : others()) {
    const auto& entry = at(index);
    if (entry.leaving || entry.refused || entry.away_until > now) continue;
    if (const auto until = ledger_.rests_until(index, now))
      resting.emplace_back(*until, index);
    else if (entry.state == HostState::ready || entry.failed_dials == 0)
      held += slots_on(index);
  }
  std::sort(resting.begin(), resting.end());
  for (const auto& [until, index] : resting) {
    if (held >= smallest_world()) break;
    out.insert(index);
    const auto& entry = at(index);
    if (entry.state == HostState::ready || entry.failed_dials == 0) held += slots_on(index);
  }
  return out;
}

bool Roster::usable(HostIndex index, Instant now, const std::set<HostIndex>& forgiven) const {
  const auto& entry = at(index);
  return entry.listed && !entry.leaving && !entry.refused && entry.away_until <= now &&
         (!ledger_.rests(index, now) || forgiven.contains(index));
}

std::vector<HostIndex> Roster::resting(Instant now, const std::set<HostIndex>& forgiven) const {
  std::vector<HostIndex> out;
  for (const auto index : others())
    if (at(index).state == HostState::ready && !usable(index, now, forgiven) && usable(index, now, {index}))
      out.push_back(index);
  return out;
}

int Roster::usable_slots(HostState state, Instant now, const std::set<HostIndex>& forgiven) const {
  int sum = plain_slots_[static_cast<std::size_t>(state)];
  for (const auto index : others())
    if (at(index).state == state && usable(index, now, forgiven)) sum += slots_on(index);
  return sum;
}

std::vector<HostIndex> Roster::to_dial(Instant now) const {
  constexpr int most_instead = 64;
  const int most = job_.elastic.max_np > 0 ? job_.elastic.max_np : job_.world_size();
  const auto pardoned = forgiven(now);
  const int ready = usable_slots(HostState::ready, now, pardoned);
  int held = ready + usable_slots(HostState::dialling, now, pardoned);
  int failed = 0;
  bool any = plain_slots_[static_cast<std::size_t>(HostState::gone)] > 0;
  const auto may_be = [&](HostIndex index) {
    const auto& entry = at(index);
    return entry.state == HostState::gone && entry.retry_at <= now && usable(index, now, pardoned) &&
           slots_on(index) > 0;
  };
  for (const auto index : others()) {
    const auto& entry = at(index);
    if (entry.state == HostState::gone && entry.failed_dials > 0 && usable(index, now, pardoned)) ++failed;
    any = any || may_be(index);
  }
  const int wanted = most + job_.elastic.spares + (ready < most ? std::min(failed, most_instead) : 0);
  std::vector<HostIndex> out;
  if (!any || held >= wanted) return out;
  for (const bool again : {false, true}) {
    for (const auto index : order()) {
      if (held >= wanted) break;
      if ((at(index).failed_dials > 0) != again || !may_be(index)) continue;
      held += slots_on(index);
      out.push_back(index);
    }
  }
  return out;
}

std::optional<Instant> Roster::next_change(Instant now) const {
  std::optional<Instant> next;
  const auto at_least = [&next](Instant at) { next = next ? std::min(*next, at) : at; };
  for (const auto index : others()) {
    const auto& entry = at(index);
    if (entry.leaving) continue;
    if (const auto until = ledger_.rests_until(index, now)) at_least(*until);
    if (entry.state == HostState::gone && entry.retry_at > now) at_least(entry.retry_at);
    if (entry.away_until > now) at_least(entry.away_until);
  }
  return next;
}

void Roster::could_not_be_reached(HostIndex index, Instant now) {
  auto pause = first_retry;
  for (int i = 0; i < at(index).failed_dials && pause < longest_retry; ++i) pause *= 2;
  change(index, [&](HostEntry& entry) {
    ++entry.failed_dials;
    entry.retry_at = now + std::min(pause, longest_retry);
  });
}

void Roster::left(HostIndex index, Instant now) {
  change(index, [&](HostEntry& entry) {
    entry.state = HostState::gone;
    entry.kept = false;
    if (!entry.leaving || entry.removed) return;
    // It went by its own word, and may come back the same way. However few hosts there are, it is not asked
    // before the longest rest is over: whoever told it to leave wants it empty.
    entry.leaving = false;
    entry.away_until = now + job_.elastic.cooldown_max;
  });
}

void Roster::host_failed(HostIndex index, Instant now, Duration atleast) {
  count(index, -1);
  ledger_.host_failed(index, now, atleast);
  count(index, +1);
}

bool Roster::worker_failed(HostIndex index, Instant now) {
  count(index, -1);
  const bool rests = ledger_.worker_failed(index, now);
  count(index, +1);
  return rests;
}

void Roster::forgive(HostIndex index) {
  count(index, -1);
  ledger_.forgive(index);
  count(index, +1);
}

bool Roster::plain(HostIndex index) const {
  const auto& entry = at(index);
  return entry.listed && !entry.leaving && !entry.refused && entry.failed_dials == 0 &&
         entry.retry_at == Instant{} && entry.away_until == Instant{} && !ledger_.knows(index);
}

void Roster::count(HostIndex index, int by) {
  const auto& entry = at(index);
  counts_.in[static_cast<std::size_t>(entry.state)] += by;
  counts_.listed += entry.listed ? by : 0;
  counts_.sweeping += entry.sweeping ? by : 0;
  counts_.inspecting += entry.inspecting ? by : 0;
  const bool is_plain = plain(index);
  plain_slots_[static_cast<std::size_t>(entry.state)] += is_plain ? by * slots_on(index) : 0;
  const auto keep = [&](std::set<HostIndex>& in, bool belongs) {
    if (belongs && by > 0) in.insert(index);
    if (belongs && by < 0) in.erase(index);
  };
  keep(others_, entry.listed && !is_plain);
  keep(unwanted_, (!entry.listed || entry.leaving) && entry.state != HostState::gone);
}

std::string Roster::broken_invariant() const {
  Counts sum;
  int plain_slots = 0, counted = 0;
  for (std::uint32_t i = 0; i < hosts_.size(); ++i) {
    const auto& entry = hosts_[i];
    ++sum.in[static_cast<std::size_t>(entry.state)];
    sum.listed += entry.listed ? 1 : 0;
    sum.sweeping += entry.sweeping ? 1 : 0;
    sum.inspecting += entry.inspecting ? 1 : 0;
    plain_slots += plain({i}) ? slots_on({i}) : 0;
    if (others_.contains({i}) != (entry.listed && !plain({i})))
      return "a host is counted with the wrong ones";
  }
  for (const int slots : plain_slots_) counted += slots;
  if (sum != counts_ || counted != plain_slots) return "hosts are counted wrongly";
  if (sum.listed != static_cast<int>(order_.size()))
    return "the list of hosts is not that of the listed ones";
  return {};
}

}  // namespace trainrun::core
