#include "launcher/core/share.h"

#include <algorithm>

#include "host-discovery/machines.h"
#include "launcher/core/binding.h"

namespace trainrun::core {

Shares::Shares(const JobSpec& job, const Placement& world, const std::function<Of(HostIndex)>& about)
    : job_(job) {
  hosts::Machines machines;
  for (const auto& seat : world.seats) {
    const auto [entry, fresh] = parts_.try_emplace(seat.host);
    if (!fresh) continue;
    const auto host = about(seat.host);
    auto& part = entry->second;
    part.facts = host.facts;
    const auto first = host.facts == nullptr ? std::nullopt : machines.note(seat.host, host.facts->place);
    part.machine = first ? parts_.at(*first).machine : static_cast<std::uint32_t>(slots_.size());
    if (!first) slots_.push_back(0);
    part.first = slots_[part.machine];
    slots_[part.machine] += std::max(seat.local_size, host.slots);
  }
}

Share Shares::of(const Seat& seat) const {
  const auto& part = parts_.at(seat.host);
  Share share{part.first + seat.slot, slots_[part.machine]};
  share.gpus = visible_gpus(job_, share.slot);
  if (part.facts == nullptr) return share;
  auto sits = seat;
  sits.slot = share.slot;
  auto cpus = cpus_of(job_, *part.facts, sits, share.slots);
  if (cpus) {
    share.cpus = std::move(*cpus);
  } else {
    share.lacks = cpus.error();
  }
  // Of its own host it was asked before the start.
  if (part.first > 0 && !share.lacks)
    if (const auto enough = gpus_suffice(job_, *part.facts, share.slot + 1); !enough)
      share.lacks = enough.error();
  return share;
}

}  // namespace trainrun::core
