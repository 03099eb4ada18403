#include "launcher/core/replan.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace trainrun::core {
namespace {

using Slot = std::pair<HostIndex, std::uint32_t>;

// The slots of all rooms that nobody has, in the order in which a world is filled.
std::vector<Slot> free_slots(const std::vector<Room>& rooms, const std::set<Slot>& taken, bool in_turn) {
  std::vector<Slot> all;
  const auto add = [&](const Room& room, int slot) {
    const Slot one{room.host, static_cast<std::uint32_t>(slot)};
    if (slot < room.slots && !taken.contains(one)) all.push_back(one);
  };
  int most = 0;
  for (const auto& room : rooms) most = std::max(most, room.slots);
  if (in_turn) {
    for (int slot = 0; slot < most; ++slot)
      for (const auto& room : rooms) add(room, slot);
  } else {
    for (const auto& room : rooms)
      for (int slot = 0; slot < room.slots; ++slot) add(room, slot);
  }
  return all;
}

// Ranks of one host follow each other, hosts in the order of their first rank.
void group_by_host(std::vector<Seat>& seats) {
  std::map<HostIndex, std::size_t> first;
  for (std::size_t i = 0; i < seats.size(); ++i) first.emplace(seats[i].host, i);
  std::stable_sort(seats.begin(), seats.end(),
                   [&](const Seat& a, const Seat& b) { return first.at(a.host) < first.at(b.host); });
}

// The first so many are survivors. Horovod counts local ranks in the order of ranks, so slots in their order
// keep them.
void order_for_horovod(std::vector<Seat>& seats, std::size_t survivors) {
  struct Sitter {
    Seat seat;
    bool survives;
  };
  std::map<HostIndex, std::vector<Sitter>> on;
  std::vector<HostIndex> order;  // of their first
  for (std::size_t i = 0; i < seats.size(); ++i) {
    auto& here = on[seats[i].host];
    if (here.empty()) order.push_back(seats[i].host);
    here.push_back({seats[i], i < survivors});
  }
  for (auto& [host, here] : on)
    std::sort(here.begin(), here.end(),
              [](const Sitter& a, const Sitter& b) { return a.seat.slot < b.seat.slot; });
  const auto steady =
      std::find_if(order.begin(), order.end(), [&](HostIndex host) { return on.at(host).front().survives; });
  if (steady != order.end()) {
    std::rotate(order.begin(), steady, steady + 1);
  } else {
    auto& first = on.at(order.front());
    const auto survivor =
        std::find_if(first.begin(), first.end(), [](const Sitter& it) { return it.survives; });
    std::rotate(first.begin(), survivor, survivor + 1);
  }
  seats.clear();
  for (const auto host : order)
    for (const auto& it : on.at(host)) seats.push_back(it.seat);
}

Placement numbered(Generation generation, std::vector<Seat> seats) {
  for (std::size_t i = 0; i < seats.size(); ++i) seats[i].rank = {static_cast<std::uint32_t>(i)};
  Placement placement{generation, std::move(seats), 0};
  placement.groups = number_seats(placement.seats);
  return placement;
}

}  // namespace

int world_size_on(const JobSpec& job, int slots) {
  const int np = job.world_size();
  const int least = job.elastic.min_np > 0 ? job.elastic.min_np : np;
  const int most = job.elastic.max_np > 0 ? job.elastic.max_np : np;
  if (job.oversubscribe && slots > 0) slots = std::max(slots, np);
  if (slots < least) return 0;
  return std::min(most, std::max({least, std::min(np, slots), slots - job.elastic.spares}));
}

int slots_of(const JobSpec& job, const Host& host) {
  if (job.ppr <= 0) return host.slots;
  return host.slots_given && !job.oversubscribe ? std::min(job.ppr, host.slots) : job.ppr;
}

Placement replan_all(const JobSpec& job, Generation generation, const std::vector<Seat>& before,
                     const std::vector<Room>& rooms, int size) {
  auto wide = rooms;
  int sum = 0;
  for (const auto& room : wide) sum += room.slots;
  for (std::size_t i = 0; sum < size && !wide.empty(); i = (i + 1) % wide.size(), ++sum)
    ++wide[i].slots;  // --oversubscribe

  std::map<HostIndex, int> left;
  for (const auto& room : wide) left[room.host] = room.slots;
  std::vector<Seat> seats;
  std::vector<std::size_t> vacant;
  std::set<Slot> taken;
  for (const auto& seat : before) {
    const auto it = left.find(seat.host);
    if (it == left.end() || it->second == 0) {
      vacant.push_back(seats.size());
    } else {
      const auto used = static_cast<std::uint32_t>(std::count_if(
          taken.begin(), taken.end(), [&](const Slot& slot) { return slot.first == seat.host; }));
      taken.insert({seat.host, used});
      --it->second;
    }
    seats.push_back(seat);
  }
  auto free = free_slots(wide, taken, job.map_by == MapBy::host);
  std::reverse(free.begin(), free.end());
  std::set<std::size_t> closed_up;
  for (const auto place : vacant) {
    if (free.empty()) {
      closed_up.insert(place);
      continue;
    }
    seats[place].host = free.back().first;
    free.pop_back();
  }
  std::vector<Seat> next;
  for (std::size_t i = 0; i < seats.size(); ++i)
    if (!closed_up.contains(i)) next.push_back(Seat{.rank = {}, .host = seats[i].host});
  while (static_cast<int>(next.size()) < size && !free.empty()) {
    next.push_back(Seat{.rank = {}, .host = free.back().first});
    free.pop_back();
  }
  if (static_cast<int>(next.size()) > size) next.resize(static_cast<std::size_t>(size));
  if (job.map_by != MapBy::host) group_by_host(next);
  std::size_t rank = 0;
  for (std::size_t part = 0; part < job.programs.size() && job.programs.size() > 1; ++part)
    for (int i = 0; i < job.programs[part].np && rank < next.size(); ++i) next[rank++].program = part;
  return numbered(generation, std::move(next));
}

Placement replan_around(const JobSpec& job, Generation generation, const std::vector<Seat>& survivors,
                        const std::vector<Seat>& vacated, const std::vector<Room>& rooms, int size,
                        Numbering numbering) {
  std::vector<Seat> seats = survivors;
  if (static_cast<int>(seats.size()) > size) seats.resize(static_cast<std::size_t>(size));
  // One that is left out still lives for a moment: its slot is not given away.
  std::set<Slot> taken;
  std::map<HostIndex, int> used;
  const auto take = [&](const Slot& slot) {
    if (!taken.insert(slot).second) return false;
    ++used[slot.first];
    return true;
  };
  for (const auto& seat : survivors) take({seat.host, seat.slot});
  std::map<HostIndex, int> slots;
  for (const auto& room : rooms) {
    slots[room.host] = room.slots;
    for (const auto slot : room.busy) take({room.host, slot});
  }
  const auto full = [&] { return static_cast<int>(seats.size()) >= size; };
  const auto sit = [&](const Slot& slot) {
    if (full() || !take(slot)) return;
    Seat seat;
    seat.host = slot.first;
    seat.slot = slot.second;
    seats.push_back(seat);
  };
  for (const auto& seat : vacated) {
    const auto room = slots.find(seat.host);
    if (room == slots.end() || used[seat.host] >= room->second) continue;
    if (static_cast<int>(seat.slot) < room->second) sit({seat.host, seat.slot});
  }
  for (const auto& slot : free_slots(rooms, taken, false))
    if (used[slot.first] < slots.at(slot.first)) sit(slot);
  for (std::uint32_t slot = 0; job.oversubscribe && !rooms.empty() && !full(); ++slot)
    for (const auto& room : rooms) sit({room.host, slot});
  if (numbering == Numbering::of_horovod) order_for_horovod(seats, std::min(survivors.size(), seats.size()));
  const auto frozen = seats;
  auto placement = numbered(generation, std::move(seats));
  for (std::size_t i = 0; i < frozen.size(); ++i) placement.seats[i].slot = frozen[i].slot;
  return placement;
}

}  // namespace trainrun::core
