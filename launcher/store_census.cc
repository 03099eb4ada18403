#include "launcher/store_census.h"

#include <algorithm>
#include <utility>

namespace trainrun {

void StoreCensus::begin(Generation generation, std::vector<WorkerId> workers) {
  *this = {};
  generation_ = generation;
  workers_ = std::move(workers);
}

// Empty also if somebody was not looked at since.
std::vector<WorkerId> StoreCensus::missing_after(Instant when) const {
  std::vector<WorkerId> out;
  for (const auto worker : workers_) {
    if (met_.contains(worker)) continue;
    if (ended_.contains(worker)) {
      out.push_back(worker);
      continue;
    }
    const auto absent = absent_at_.find(worker);
    if (absent == absent_at_.end() || absent->second < when) return {};
    out.push_back(worker);
  }
  return out;
}

std::vector<WorkerId> StoreCensus::seen(const wire::StoreSeen& by_agent, Instant now) {
  if (by_agent.generation != generation_) return {};
  met_.insert(by_agent.met.begin(), by_agent.met.end());
  for (const auto& some : {by_agent.apart, by_agent.away})
    for (const auto worker : some) absent_at_[worker] = now;
  for (const auto worker : by_agent.apart) loaded_at_.try_emplace(worker, now);
  if (!met_.empty()) {
    if (!first_met_) first_met_ = now;
    if (told_waits_) return {};
    auto missing = missing_after(*first_met_ + waits_for);
    told_waits_ = !missing.empty();
    return missing;
  }
  if (told_alone_) return {};
  Instant all_loaded{};
  for (const auto worker : workers_) {
    if (ended_.contains(worker)) continue;
    const auto loaded = loaded_at_.find(worker);
    if (loaded == loaded_at_.end()) return {};
    all_loaded = std::max(all_loaded, loaded->second);
  }
  auto missing = missing_after(all_loaded + alone_for);
  told_alone_ = !missing.empty();
  return missing;
}

}  // namespace trainrun
