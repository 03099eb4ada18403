// Integers that cannot be mixed up: a WorkerId is not a Rank.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace trainrun {

template <class Tag>
struct Id {
  std::uint32_t value = 0;
  friend auto operator<=>(const Id&, const Id&) = default;
};

using WorkerId = Id<struct WorkerTag>;  // one attempt to run the program; from 1, never reused; 0 is none
using Generation = Id<struct GenerationTag>;  // number of the current world, from 1
using HostIndex = Id<struct HostIndexTag>;    // position in the job's list of hosts, from 0
using Rank = Id<struct RankTag>;              // position in one generation, from 0
using StreamId = Id<struct StreamTag>;        // one relayed connection on one Link

}  // namespace trainrun

template <class Tag>
struct std::hash<trainrun::Id<Tag>> {
  std::size_t operator()(const trainrun::Id<Tag>& id) const noexcept {
    return std::hash<std::uint32_t>{}(id.value);
  }
};
