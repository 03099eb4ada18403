#include "launcher/store_census.h"

#include <algorithm>
#include <utility>

namespace trainrun {

void StoreCensus::begin(Generation generation, std::vector<WorkerId> workers, bool own_store) {
  *this = {};
  own_store_ = own_store;
  generation_ = generation;
  workers_ = std::move(workers);
}

void StoreCensus::joined(Generation generation, Rank rank) {
  meet_elsewhere(generation);
  if (generation == generation_ && rank.value < workers_.size()) joined_.insert(workers_[rank.value]);
}

// Empty also if somebody was not looked at since.
std::vector<WorkerId> StoreCensus::missing_after(Instant when) const {
  std::vector<WorkerId> out;
  for (const auto worker : workers_) {
    if (met_.contains(worker) || joined_.contains(worker)) continue;
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

// A port counts that one of them listens at and one of them is connected to, also the same: rank 0 of a store
// of PyTorch's is a client of its own.
std::vector<StoreFindings::Elsewhere> StoreCensus::elsewhere() const {
  std::map<std::uint16_t, std::set<WorkerId>> served, reached;
  for (const auto& [worker, ports] : ports_) {
    if (met_.contains(worker)) continue;
    for (const auto port : ports.listens) served[port].insert(worker);
    for (const auto port : ports.reaches) reached[port].insert(worker);
  }
  std::map<WorkerId, StoreFindings::Elsewhere> found;
  for (const auto& [port, servers] : served) {
    const auto& clients = reached[port];
    if (clients.empty()) continue;
    const bool meets = !std::includes(servers.begin(), servers.end(), clients.begin(), clients.end());
    const auto add = [&found, meets](StoreFindings::Elsewhere place) {
      found.try_emplace(place.worker, place).first->second.meets |= meets;
    };
    for (const auto worker : servers) add({worker, port, true});
    for (const auto worker : clients) add({worker, port, false});
  }
  std::vector<StoreFindings::Elsewhere> out;
  for (const auto worker : workers_)
    if (const auto it = found.find(worker); it != found.end()) out.push_back(it->second);
  return out;
}

std::optional<Instant> StoreCensus::all_loaded(bool with_ended) const {
  Instant all{};
  for (const auto worker : workers_) {
    if (!with_ended && ended_.contains(worker)) continue;
    const auto loaded = loaded_at_.find(worker);
    if (loaded == loaded_at_.end()) return std::nullopt;
    all = std::max(all, loaded->second);
  }
  return all;
}

void StoreCensus::learn(const wire::StoreSeen& by_agent, Instant now) {
  if (by_agent.port != 0) port_ = by_agent.port;
  met_.insert(by_agent.met.begin(), by_agent.met.end());
  hosts_.insert(by_agent.hosts.begin(), by_agent.hosts.end());
  for (const auto& some : {by_agent.apart, by_agent.away})
    for (const auto worker : some) absent_at_[worker] = now;
  // Who had PyTorch and is away now has loaded trainrun's library since.
  for (const auto worker : by_agent.away) loaded_at_.erase(worker);
  for (const auto worker : by_agent.apart) {
    loaded_at_.try_emplace(worker, now);
    ports_.erase(worker);
  }
  for (const auto& ports : by_agent.others) {
    listened_ = listened_ || !ports.listens.empty();
    ports_[ports.worker] = ports;
  }
  traces_ = traces_ || by_agent.traces;
  // A group that lives for a moment is seen by nobody.
  listened_ = listened_ || by_agent.own_meeting;
}

// None has come to the store.
StoreFindings StoreCensus::alone(std::vector<WorkerId> missing) const {
  StoreFindings found;
  if (missing.empty()) return found;
  found.elsewhere = elsewhere();
  const auto meeting = std::count_if(found.elsewhere.begin(), found.elsewhere.end(),
                                     [](const StoreFindings::Elsewhere& it) { return it.meets; });
  if (static_cast<std::size_t>(meeting) == missing.size()) return {};
  found.some_meet_elsewhere = meeting > 0;
  if (meeting == 0) found.absent = std::move(missing);
  return found;
}

StoreFindings StoreCensus::seen(const wire::StoreSeen& by_agent, Instant now) {
  if (by_agent.generation != generation_ || workers_.empty()) return {};
  learn(by_agent, now);
  StoreFindings found;
  if (by_agent.unasked && !std::exchange(told_unasked_, true)) {
    found.unasked = !told_alone_;
    told_alone_ = true;
  }
  if (hosts_.size() > 1 && !std::exchange(told_hosts_, true))
    for (const auto worker : workers_)
      if (hosts_.contains(worker)) found.hosts.push_back(worker);
  if (!met_.empty() && own_store_) return found;
  if (!met_.empty()) {
    if (!first_met_) first_met_ = now;
    if (by_agent.idle_ms > 0 && met_.size() >= workers_.size() && !std::exchange(told_idle_, true)) {
      found.all_of = workers_.size();
      found.idle = milliseconds(by_agent.idle_ms);
    }
    if (told_waits_) return found;
    found.absent = missing_after(*first_met_ + waits_for);
    told_waits_ = !found.absent.empty();
    if (told_waits_) found.elsewhere = elsewhere();
    return found;
  }
  const auto loaded = all_loaded(false);
  if (told_alone_ || told_so_far_ || traces_ || !loaded) return found;
  auto missing = missing_after(*loaded + alone_for);
  told_so_far_ = !missing.empty();
  return alone(std::move(missing));
}

std::vector<WorkerId> StoreCensus::awaited() const {
  if (!first_met_ || told_alone_ || !elsewhere().empty()) return {};
  auto missing = missing_after(*first_met_);
  std::erase_if(missing, [this](WorkerId it) { return ended_.contains(it); });
  return missing;
}

StoreFindings StoreCensus::ended(WorkerId worker, Instant now) {
  ended_.insert(worker);
  if (own_store_ || told_alone_ || traces_ || listened_ || !met_.empty() || ended_.size() < workers_.size())
    return {};
  if (std::any_of(workers_.begin(), workers_.end(), [this](WorkerId it) { return !ended_.contains(it); }))
    return {};  // it was one of an earlier world
  const auto loaded = all_loaded(true);
  if (!loaded || now < *loaded + least_life) return {};
  told_alone_ = true;
  return alone(workers_);
}

}  // namespace trainrun
