// What room hosts have: their slots, and whether the cores and GPUs are there for as many.
#include "launcher/core/job_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/core/binding.h"

namespace trainrun::core {

// Without those that the user stopped.
int JobMachine::slots_on(HostIndex index) const {
  const auto stopped = stopped_slots_.find(index);
  const int slots = slots_of(spec_, hosts_.at(index.value).host);
  return std::max(0, slots - (stopped == stopped_slots_.end() ? 0 : stopped->second));
}

int JobMachine::slots_without(std::optional<HostIndex> without) const {
  int sum = 0;
  for (const auto index : order_) {
    const auto& host = hosts_.at(index.value);
    const bool may_come = host.state == HostState::ready || host.failed_dials == 0;
    if (index != without && !host.leaving && !host.refused && host.away_until <= now_ && may_come)
      sum += slots_on(index);
  }
  return sum;
}

bool JobMachine::holds_without(HostIndex host) const { return world_size_on(spec_, slots_without(host)) > 0; }

bool JobMachine::holds_with_a_slot_less() const {
  return world_size_on(spec_, slots_without(std::nullopt) - 1) > 0;
}

std::vector<Room> JobMachine::rooms(bool with_dialling) const {
  std::vector<Room> out;
  const auto pardoned = forgiven();
  for (const auto index : order_) {
    const auto& host = hosts_.at(index.value);
    const bool there = host.state == HostState::ready || (with_dialling && host.state == HostState::dialling);
    if (!there || !usable(index, pardoned)) continue;
    Room room{index, slots_on(index), {}};
    if (!world_.dismissed().empty()) {
      for (const auto id : world_.on(index))
        if (world_.dismissed().contains(id)) room.busy.push_back(world_.at(id).seat.slot);
    }
    // Who stays keeps its slot, also while one that a smaller host has no slot for any more still ends.
    const auto left = static_cast<std::size_t>(std::max(0, room.slots - world_.survivors_on(index)));
    if (room.busy.size() > left && !spec_.oversubscribe) room.busy.resize(left);
    if (room.slots > 0) out.push_back(std::move(room));
  }
  return out;
}

Result<void> JobMachine::slots_suit(HostIndex index) const {
  const auto& host = hosts_.at(index.value);
  if (!elastic() || !host.facts) return {};
  auto good = core::slots_suit(spec_, *host.facts,
                               static_cast<std::uint32_t>(std::max(0, slots_of(spec_, host.host))));
  if (!good) good.error().message = fmt::format("{}: {}", host.host.name, good.error().message);
  return good;
}

// The ranks that are there have what they got at their start, and go on.
void JobMachine::slots_changed(HostIndex index) {
  auto& host = hosts_.at(index.value);
  const auto good = slots_suit(index);
  host.refused = !good;
  if (good) return;
  if (std::exchange(host.note, good.error().message) == good.error().message) return;
  tell(notice::HostUnsuited{named(index), good.error()});
}

}  // namespace trainrun::core
