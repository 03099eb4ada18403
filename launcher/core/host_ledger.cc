#include "launcher/core/host_ledger.h"

#include <algorithm>

namespace trainrun::core {

bool HostLedger::worker_failed(HostIndex host, Instant now) {
  auto& entry = entries_[host];
  std::erase_if(entry.workers, [now](Instant at) { return now - at > window; });
  entry.workers.push_back(now);
  if (entry.workers.size() <= tolerated && !rested_lately(host, now)) return false;
  entry.workers.clear();
  entry.rested_for_workers = now;
  rest(entry, now, Duration::zero());
  return true;
}

void HostLedger::host_failed(HostIndex host, Instant now, Duration atleast) {
  rest(entries_[host], now, atleast);
}

void HostLedger::rest(Entry& entry, Instant now, Duration atleast) {
  if (entry.blames > 0 && now - entry.blamed_at > window) entry.blames = 0;
  auto time = least_;
  for (int i = 0; i < entry.blames && time < most_; ++i) time *= 2;
  ++entry.blames;
  entry.blamed_at = now;
  entry.until = std::max(entry.until, now + std::max(std::min(time, most_), atleast));
}

bool HostLedger::rested_lately(HostIndex host, Instant now) const {
  const auto it = entries_.find(host);
  return it != entries_.end() && it->second.rested_for_workers &&
         now - *it->second.rested_for_workers <= window;
}

bool HostLedger::several_rested_lately(Instant now) const {
  return std::count_if(entries_.begin(), entries_.end(),
                       [&](const auto& it) { return rested_lately(it.first, now); }) > 1;
}

bool HostLedger::rests(HostIndex host, Instant now) const { return rests_until(host, now).has_value(); }

std::optional<Instant> HostLedger::rests_until(HostIndex host, Instant now) const {
  const auto it = entries_.find(host);
  if (it == entries_.end() || it->second.until <= now) return std::nullopt;
  return it->second.until;
}

}  // namespace trainrun::core
