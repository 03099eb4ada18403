#include "rendezvous/adapters/horovod_rounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trainrun::rendezvous {
namespace {

constexpr const char* no_place = "-1,-1,-1,-1,-1,-1";

std::string name_of(const HorovodSeat& seat) { return fmt::format("{}:{}", seat.host, seat.local_rank); }

std::string place_of(const HorovodSeat& seat, std::size_t size) {
  return fmt::format("{},{},{},{},{},{}", seat.rank.value, size, seat.local_rank, seat.local_size,
                     seat.cross_rank, seat.cross_size);
}

}  // namespace

void HorovodRounds::begin(const std::vector<HorovodSeat>& world) {
  auto before = std::exchange(members_, {});
  size_ = world.size();
  formed_ = false;
  std::vector<WorkerId> hopeless;
  for (const auto& seat : world) {
    const auto it = before.find(seat.worker);
    if (it == before.end()) {
      members_[seat.worker] = Member{.seat = seat, .name = name_of(seat)};
      continue;
    }
    auto& member = members_[seat.worker] = std::move(it->second);
    before.erase(it);
    if (heard_ && member.told && !member.ready) hopeless.push_back(seat.worker);
    member.seat = seat;
    member.told = member.arrived = member.ready = false;
  }
  leavers_.merge(before);
  for (const auto worker : hopeless)
    if (callbacks_.hopeless) callbacks_.hopeless(worker);
  for (const auto& [worker, member] : members_)
    if (!member.connections.empty() && callbacks_.joined) callbacks_.joined(member.seat.rank);
  release_if_all_are_there();
}

// A survivor that was not told its new place asks by the old one, which may be a newcomer's now; and that one
// cannot ask before the survivor was answered. Nor can anyone before it is through with hvd.init: who asks by
// its name then is one that it has followed, and that is about to be ended.
HorovodRounds::Member* HorovodRounds::find(const std::string& name) {
  Member* found = nullptr;
  for (auto& [worker, member] : members_)
    if (member.name == name && (found == nullptr || !member.told)) found = &member;
  if (found != nullptr && (!found->told || found->ready)) return found;
  // The latest of them: earlier ones in this slot are dead.
  for (auto it = leavers_.rbegin(); it != leavers_.rend(); ++it)
    if (it->second.name == name) return &it->second;
  return found;
}

void HorovodRounds::ask(std::uint32_t connection, const std::string& name) {
  heard_ = true;
  auto* member = find(name);
  if (member == nullptr) return callbacks_.answer(connection, no_place);
  if (member->told && !member->elastic && !member->dismissed)
    return callbacks_.answer(connection, place_of(member->seat, size_));
  const bool first = member->connections.empty();
  member->connections.insert(connection);
  if (!first) return;
  const auto worker = member->seat.worker;
  if (member->dismissed) {
    if (callbacks_.hopeless) callbacks_.hopeless(worker);
  } else if (leavers_.contains(worker)) {
    return;  // it will be dismissed
  } else if (member->told) {
    if (callbacks_.waits) callbacks_.waits(worker);
  } else {
    if (callbacks_.joined) callbacks_.joined(member->seat.rank);
    release_if_all_are_there();
  }
}

void HorovodRounds::closed(std::uint32_t connection) {
  for (auto* some : {&members_, &leavers_})
    for (auto& [worker, member] : *some) member.connections.erase(connection);
}

void HorovodRounds::dismiss(WorkerId worker) {
  for (auto* some : {&members_, &leavers_}) {
    const auto it = some->find(worker);
    if (it == some->end()) continue;
    it->second.dismissed = true;
    if (!it->second.connections.empty() && callbacks_.hopeless) callbacks_.hopeless(worker);
  }
}

WorkerId HorovodRounds::registered(const std::string& name) {
  heard_ = true;
  auto* member = find(name);
  if (member == nullptr) return {};
  member->elastic = true;
  tell_if_formed();
  return member->seat.worker;
}

void HorovodRounds::arrived(Rank rank) {
  heard_ = true;
  bool survivors = false;
  for (auto& [worker, member] : members_) {
    if (member.seat.rank == rank && member.told) member.arrived = true;
    survivors = survivors || !member.told;
  }
  if (!survivors) return;
  if (callbacks_.joined) callbacks_.joined(rank);
  release_if_all_are_there();
}

void HorovodRounds::initialised(std::uint32_t local_rank, std::uint32_t cross_rank) {
  for (auto& [worker, member] : members_)
    if (member.seat.local_rank == local_rank && member.seat.cross_rank == cross_rank && member.told)
      member.ready = true;
  tell_if_formed();
}

bool HorovodRounds::elastic() const {
  return std::any_of(members_.begin(), members_.end(), [](const auto& it) { return it.second.elastic; });
}

std::set<Rank> HorovodRounds::asking() const {
  std::set<Rank> ranks;
  for (const auto& [worker, member] : members_)
    if (!member.told && !member.connections.empty()) ranks.insert(member.seat.rank);
  return ranks;
}

void HorovodRounds::release_if_all_are_there() {
  const auto is_missing = [](const auto& it) {
    const Member& member = it.second;
    return member.told ? !member.arrived : member.connections.empty();
  };
  const auto is_survivor = [](const auto& it) { return !it.second.told; };
  if (std::any_of(members_.begin(), members_.end(), is_missing) ||
      std::none_of(members_.begin(), members_.end(), is_survivor))
    return;
  for (auto& [worker, member] : members_) {
    if (member.told) continue;
    member.told = true;
    member.name = name_of(member.seat);
    for (const auto connection : std::exchange(member.connections, {}))
      callbacks_.answer(connection, place_of(member.seat, size_));
  }
}

bool HorovodRounds::through(const std::set<Rank>& ranks) const {
  return std::all_of(members_.begin(), members_.end(), [&ranks](const auto& it) {
    const Member& member = it.second;
    return !ranks.contains(member.seat.rank) || (member.told && member.ready && member.elastic);
  });
}

void HorovodRounds::tell_if_formed() {
  const bool all = std::all_of(members_.begin(), members_.end(), [](const auto& it) {
    return it.second.told && it.second.ready && it.second.elastic;
  });
  if (all && !members_.empty() && !std::exchange(formed_, true) && callbacks_.formed) callbacks_.formed();
}

}  // namespace trainrun::rendezvous
