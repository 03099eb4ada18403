// What room hosts have: their slots, and whether the cores and GPUs are there for as many.
#include "launcher/core/job_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/core/binding.h"

namespace trainrun::core {

bool JobMachine::holds_without(HostIndex host) const {
  const int slots = roster_.slots_without(host, now_);
  if (world_size_on(spec_, slots) > 0) return true;
  int kept = 0;
  for (const auto index : kept_hosts())
    if (index != host) kept += slots_on(index);
  return world_size_on(spec_, slots + kept) > 0;
}

bool JobMachine::holds_with_a_slot_less() const {
  return world_size_on(spec_, roster_.slots_without(std::nullopt, now_) - 1) > 0;
}

bool JobMachine::is_there(HostIndex index, bool with_dialling) const {
  const auto state = roster_.at(index).state;
  return state == HostState::ready || (with_dialling && state == HostState::dialling);
}

Room JobMachine::room_on(HostIndex index) const {
  Room room{index, slots_on(index), {}};
  if (world_.dismissed().empty()) return room;
  for (const auto id : world_.on(index))
    if (world_.dismissed().contains(id)) room.busy.push_back(world_.at(id).seat.slot);
  // Who stays keeps its slot, also while one that a smaller host has no slot for any more still ends.
  const auto left = static_cast<std::size_t>(std::max(0, room.slots - world_.survivors_on(index)));
  if (room.busy.size() > left && !spec_.oversubscribe) room.busy.resize(left);
  return room;
}

Shares::Of JobMachine::share_of(HostIndex index) const {
  const auto& host = roster_.at(index);
  const auto slots = elastic() ? std::max(0, slots_of(spec_, host.host)) : 0;
  return {static_cast<std::uint32_t>(slots), host.facts.get()};
}

std::vector<Room> JobMachine::rooms(bool with_dialling) const {
  std::vector<Room> out;
  const auto pardoned = forgiven();
  for (const auto index : roster_.order()) {
    if (!is_there(index, with_dialling) || !usable(index, pardoned)) continue;
    if (auto room = room_on(index); room.slots > 0) out.push_back(std::move(room));
  }
  return out;
}

// What rooms() add up to. Only where somebody was dismissed a slot may be taken.
int JobMachine::free_slots(bool with_dialling) const {
  const auto pardoned = forgiven();
  int sum = roster_.usable_slots(HostState::ready, now_, pardoned);
  if (with_dialling) sum += roster_.usable_slots(HostState::dialling, now_, pardoned);
  std::set<HostIndex> held;
  for (const auto id : world_.dismissed()) held.insert(world_.at(id).seat.host);
  for (const auto index : held) {
    if (!is_there(index, with_dialling) || !usable(index, pardoned)) continue;
    const auto room = room_on(index);
    sum -= room.slots - room.free();
  }
  return sum;
}

std::set<HostIndex> JobMachine::kept_hosts() const {
  std::set<HostIndex> out;
  for (const auto index : roster_.unwanted()) {
    const auto& host = roster_.at(index);
    if (host.kept && !host.leaving && !host.refused && host.state == HostState::ready) out.insert(index);
  }
  return out;
}

bool JobMachine::kept_ones_serve(bool with_dialling) const {
  return world_size_on(spec_, free_slots(with_dialling)) == 0;
}

int JobMachine::handing_over() const {
  if (roster_.unwanted().empty() || !in_place_now() || spec_.oversubscribe) return 0;
  const auto kept = kept_hosts();
  if (kept.empty()) return 0;
  int there = 0;
  bool holds = false;
  for (const auto& [id, worker] : world_.all()) {
    if (!worker.survives() || worker.fate >= Fate::asked_to_leave) continue;
    const auto host = worker.seat.host;
    const bool stays = kept.contains(host);
    if (worker.has_state && !stays && !roster_.at(host).leaving) return 0;
    there += stays ? 1 : 0;
    holds = holds || (stays && worker.has_state);
  }
  return holds && world_size_on(spec_, free_slots(false) + there) > there ? there : 0;
}

std::vector<Room> JobMachine::rooms_for_next(bool with_dialling) const {
  auto out = rooms(with_dialling);
  if (!kept_ones_serve(with_dialling)) return out;
  for (const auto index : kept_hosts())
    if (auto room = room_on(index); room.slots > 0) out.push_back(std::move(room));
  return out;
}

int JobMachine::slots_for_next(bool with_dialling) const {
  int sum = free_slots(with_dialling);
  if (kept_ones_serve(with_dialling))
    for (const auto index : kept_hosts()) sum += room_on(index).free();
  else
    sum += handing_over();
  return sum;
}

bool JobMachine::slots_are_held() const {
  if (world_.dismissed().empty()) return false;
  const auto pardoned = forgiven();
  const auto kept = kept_ones_serve(false) ? kept_hosts() : std::set<HostIndex>{};
  return std::any_of(world_.dismissed().begin(), world_.dismissed().end(), [&](WorkerId id) {
    const auto index = world_.at(id).seat.host;
    const auto room = room_on(index);
    const bool serves = usable(index, pardoned) || kept.contains(index);
    return is_there(index, false) && serves && room.slots > 0 && !room.busy.empty();
  });
}

Result<void> JobMachine::slots_suit(HostIndex index) const {
  const auto& host = roster_.at(index);
  if (!elastic() || !host.facts) return {};
  auto good = core::slots_suit(spec_, *host.facts,
                               static_cast<std::uint32_t>(std::max(0, slots_of(spec_, host.host))));
  if (!good) good.error().message = fmt::format("{}: {}", host.host.name, good.error().message);
  return good;
}

// The ranks that are there have what they got at their start, and go on.
void JobMachine::slots_changed(HostIndex index) {
  const auto good = slots_suit(index);
  if (good && !roster_.at(index).refused) return;
  const bool known = !good && roster_.at(index).note == good.error().message;
  roster_.change(index, [&good](HostEntry& it) {
    it.refused = !good;
    if (!good) it.note = good.error().message;
  });
  if (good || known) return;
  tell(notice::HostUnsuited{named(index), good.error()});
}

}  // namespace trainrun::core
