#include "rendezvous/adapters/torch_claims.h"

#include <algorithm>
#include <utility>

#include "launcher/base/strings.h"

namespace trainrun::rendezvous {
namespace {

constexpr std::size_t most_keys = 200'000;  // more than members of a group may be

}  // namespace

std::optional<std::uint32_t> member_of_key(std::string_view key) {
  const auto slash = key.rfind('/');
  if (slash == std::string_view::npos || key.find("default_pg/") == std::string_view::npos)
    return std::nullopt;
  if (key.find("//cuda") != std::string_view::npos) return std::nullopt;  // NCCL counts communicators there
  const auto number = parse_unsigned<std::uint32_t>(key.substr(slash + 1));
  return number ? std::optional(*number) : std::nullopt;
}

std::optional<TorchClash> TorchClaims::put(Rank rank, const std::string& key) {
  const auto number = member_of_key(key);
  if (!number || told_ || by_.size() >= most_keys) return std::nullopt;
  const auto [it, first] = by_.try_emplace(key, rank);
  if (first || it->second == rank) return std::nullopt;
  told_ = true;
  return TorchClash{std::min(it->second, rank), std::max(it->second, rank), *number};
}

}  // namespace trainrun::rendezvous
