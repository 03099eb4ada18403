// What each rank has to take part in a communicator with, as they tell each other before any id is made:
// ranks with different NCCLs would wait for each other for ever. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/failure.h"

namespace trainrun::comm::nccl {

struct Kit {
  int version = 0;     // 0: this rank cannot take part
  std::string what{};  // the library's path, or why not

  friend bool operator==(const Kit&, const Kit&) = default;
};

std::string encode(const Kit& kit);
std::optional<Kit> decode(std::string_view text);

// Of each member, with its number in the world and its host. Nothing when they fit together; else
// TRC_UNSUPPORTED or TRC_MISMATCH that names ranks, hosts and versions, the same on all.
struct Brought {
  std::uint32_t rank;
  std::string host;
  Kit kit;
};
std::optional<Failure> misfit(const std::vector<Brought>& all);

}  // namespace trainrun::comm::nccl
