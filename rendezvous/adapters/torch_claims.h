// Whether ranks that come to a store of PyTorch's take themselves for what they are. Gloo puts down where
// each member of a group is, under the group's name and the member's number, and waits for the others'
// places: so a script that has set RANK or WORLD_SIZE by itself shows. Pure; knows of keys, not of sockets.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/base/id.h"

namespace trainrun::rendezvous {

// Two ranks have come as the same one.
struct TorchClash {
  Rank one, other;
  std::uint32_t number = 0;
};

// Of which member of the group of all ranks this key is; nothing: of none.
std::optional<std::uint32_t> member_of_key(std::string_view key);

class TorchClaims {
 public:
  // The first clash, once.
  std::optional<TorchClash> put(Rank rank, const std::string& key);

 private:
  std::map<std::string, Rank> by_;
  bool told_ = false;
};

}  // namespace trainrun::rendezvous
