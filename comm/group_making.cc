#include "comm/group_making.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "launcher/base/rank_ranges.h"
#include "launcher/base/strings.h"

namespace trainrun::comm {
namespace {

// Reached from the one before it, as places in the list of all that were reached.
struct Reached {
  Waiting waiting;
  std::size_t before;
};

std::vector<Waiting> ring_to(std::size_t last, const std::vector<Reached>& all) {
  std::vector<Waiting> ring;
  for (auto at = last;; at = all[at].before) {
    ring.push_back(all[at].waiting);
    if (at == 0) break;
  }
  std::reverse(ring.begin(), ring.end());
  const auto lowest = std::ranges::min_element(ring, {}, &Waiting::rank);
  std::rotate(ring.begin(), lowest, ring.end());
  return ring;
}

}  // namespace

std::string words_of(const Making& making) {
  return fmt::format("a group of ranks {}", as_ranges(making.ranks));
}

std::string list_of(const Making& making) { return fmt::format("{}", fmt::join(making.ranks, ",")); }

std::optional<Making> making_of(std::string_view name, std::string_view list) {
  Making making{std::string(name), {}};
  for (const auto word : split(list, ',')) {
    const auto rank = parse_unsigned<std::uint32_t>(word);
    if (!rank) return std::nullopt;
    making.ranks.push_back(*rank);
  }
  return making;
}

// A search in breadth, so the shortest ring. What a rank makes is read before it is asked whether others have
// come there: one that waited, was met, and went on is not taken for one that waits.
std::vector<Waiting> find_ring(const Waiting& own, std::size_t from, const Questions& questions) {
  std::vector<Reached> reached{{own, 0}};
  std::set<std::uint32_t> seen{own.rank};
  std::size_t asked = 0;
  for (std::size_t at = 0; at < reached.size(); ++at) {
    const auto [rank, making] = reached[at].waiting;
    const auto may_ask = at == 0 ? questions.of_members : questions.of_members + questions.further;
    for (std::size_t i = 0; i < making.ranks.size(); ++i) {
      const auto other = making.ranks[(from + i) % making.ranks.size()];
      if (at > 0 && other == own.rank) {
        if (!questions.has_come(own.rank, making)) return ring_to(at, reached);
        continue;
      }
      if (seen.contains(other) || asked == may_ask) continue;
      ++asked;
      auto others = questions.making_of(other);
      if (!others || others->name == making.name || questions.has_come(other, making)) continue;
      seen.insert(other);
      reached.push_back({{other, std::move(*others)}, at});
    }
  }
  return {};
}

// Whoever was suspected is asked about once more. Else it is others' turn: one fewer than were asked, so that
// groups of any size are gone round.
std::vector<Waiting> RingWatch::look() {
  auto ring = find_ring(own_, from_, questions_);
  auto ranks = ranks_in(ring);
  if (!ring.empty() && ranks == suspected_) return ring;
  if (ring.empty()) from_ += questions_.of_members - 1;
  suspected_ = std::move(ranks);
  return {};
}

std::vector<std::uint32_t> ranks_in(const std::vector<Waiting>& ring) {
  std::vector<std::uint32_t> ranks;
  for (const auto& each : ring) ranks.push_back(each.rank);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::string words_of(const std::vector<Waiting>& ring) {
  std::vector<std::string> parts;
  for (const auto& [rank, making] : ring)
    parts.push_back(fmt::format("rank {} makes {}", rank, words_of(making)));
  return fmt::format("{}: each waits for the {}", fmt::join(parts, ", "),
                     ring.size() == 2 ? "other" : "next");
}

}  // namespace trainrun::comm
