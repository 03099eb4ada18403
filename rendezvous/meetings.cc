#include "rendezvous/meetings.h"

namespace trainrun::rendezvous {

const Meeting* Meetings::find(const std::string& name) const {
  const auto at = number_of_.find(name);
  return at == number_of_.end() ? nullptr : &meetings_.at(at->second);
}

void Meetings::enter(const std::string& name, const std::vector<std::uint32_t>& ranks, std::uint32_t rank,
                     WaiterNumber waiter) {
  const auto [at, fresh] = number_of_.emplace(name, last_ + 1);
  const auto number = at->second;
  auto& meeting = meetings_[number];
  if (fresh) {
    ++last_;
    meeting.name = name;
    meeting.ranks = ranks;
    if (ranks.empty()) of_all_.insert(number);
    for (const auto each : ranks) named_in_.emplace(each, number);
  }
  meeting.here[rank] = waiter;
}

void Meetings::leave(const std::string& name, std::uint32_t rank) {
  const auto at = number_of_.find(name);
  if (at == number_of_.end()) return;
  const auto number = at->second;
  auto& meeting = meetings_.at(number);
  meeting.here.erase(rank);
  if (!meeting.here.empty()) return;
  of_all_.erase(number);
  for (const auto each : meeting.ranks) named_in_.erase({each, number});
  number_of_.erase(at);
  meetings_.erase(number);
}

std::vector<WaiterNumber> Meetings::waiting_for(std::uint32_t rank) const {
  std::vector<WaiterNumber> waiters;
  const auto add = [&](std::uint64_t number) {
    for (const auto& [other, waiter] : meetings_.at(number).here) waiters.push_back(waiter);
  };
  for (const auto number : of_all_) add(number);
  for (auto at = named_in_.lower_bound({rank, 0}); at != named_in_.end() && at->first == rank; ++at)
    add(at->second);
  return waiters;
}

}  // namespace trainrun::rendezvous
