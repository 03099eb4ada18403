#include "launcher/core/stall_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>

#include "launcher/base/utf8.h"
#include "launcher/core/rank_ranges.h"

namespace trainrun::core {
namespace {

constexpr std::size_t most_groups = 64;  // of which is known where their members are
constexpr std::size_t longest_name = 40;
constexpr std::size_t most_told = 4;  // of ranks that are not equally far behind
constexpr Duration stood_still = seconds(2);

// " (8 MiB)"; nothing for a barrier.
std::string size_text(std::uint64_t bytes) {
  constexpr const char* units[] = {"bytes", "KiB", "MiB", "GiB"};
  if (bytes == 0) return {};
  std::size_t unit = 0;
  const auto shorter = [&] { return bytes >= 10240 || (bytes >= 1024 && bytes % 1024 == 0); };
  for (; unit + 1 < std::size(units) && shorter(); ++unit) bytes /= 1024;
  return fmt::format(" ({} {})", bytes, units[unit]);
}

std::string ranks_text(const std::vector<std::uint32_t>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", as_ranges(ranks));
}

}  // namespace

void StallWatch::operated(WorkerId worker, Operation operation, Instant now) {
  if (!groups_.contains(operation.group) && groups_.size() >= most_groups) return;
  if (operation.inside && !due_) due_ = now + limit_;
  operation.name = printable(operation.name.substr(0, longest_name));
  // It says where it is, and so that it is nowhere else any more.
  for (auto& [number, group] : groups_)
    if (const auto known = group.last.find(worker); known != group.last.end()) known->second.inside = false;
  groups_[operation.group].last[worker] = {std::move(operation), now};
}

std::optional<std::string> StallWatch::line(std::uint32_t number, Group& group,
                                            const std::vector<std::pair<Rank, WorkerId>>& ranks,
                                            Instant now) const {
  const Told* furthest = nullptr;
  for (const auto& [worker, one] : group.last)
    if (one.inside && (furthest == nullptr || one.sequence > furthest->sequence)) furthest = &one;
  if (furthest == nullptr || furthest->sequence == group.told) return std::nullopt;

  std::vector<std::uint32_t> waiting;
  std::map<std::uint64_t, std::vector<std::uint32_t>, std::greater<>> behind;  // by their last operation
  Instant longest = now;
  for (const auto& [rank, worker] : ranks) {
    const auto known = group.last.find(worker);
    if (known == group.last.end()) {
      // Only of the group of all ranks is known who is in it.
      if (number == all_ranks) behind[0].push_back(rank.value);
    } else if (known->second.inside && known->second.sequence == furthest->sequence) {
      waiting.push_back(rank.value);
      longest = std::min(longest, known->second.since);
    } else if (known->second.sequence < furthest->sequence) {
      behind[known->second.sequence].push_back(rank.value);
    }
  }
  if (waiting.empty() || behind.empty() || now - longest < limit_) return std::nullopt;

  std::string late;
  std::size_t told = 0, others = 0;
  for (const auto& [sequence, who] : behind) {
    if (++told > most_told) {
      others += who.size();
      continue;
    }
    const auto count = furthest->sequence - sequence;
    late += fmt::format("{}{} {} {} operation{} behind", late.empty() ? "" : ", ", ranks_text(who),
                        who.size() == 1 ? "is" : "are", count, count == 1 ? "" : "s");
  }
  if (others > 0) late += fmt::format(", {} more {}", others, others == 1 ? "is" : "are");
  return fmt::format("{}: {} {} waited {} in {} number {}{}", late, ranks_text(waiting),
                     waiting.size() == 1 ? "has" : "have", format_duration(now - longest), furthest->name,
                     furthest->sequence, size_text(furthest->bytes));
}

std::vector<std::string> StallWatch::look(const std::vector<std::pair<Rank, WorkerId>>& ranks, Instant now) {
  const bool late = due_ && now - *due_ > stood_still;
  due_.reset();
  std::vector<std::string> lines;
  for (auto& [number, group] : groups_) {
    auto found = late ? std::nullopt : line(number, group, ranks, now);
    for (auto& [worker, one] : group.last) {
      if (!one.inside) continue;
      if (late) one.since = now;
      const auto next = one.since + limit_ > now ? one.since + limit_ : now + limit_;
      due_ = due_ ? std::min(*due_, next) : next;
      if (found) group.told = std::max(group.told, one.sequence);
    }
    if (found) lines.push_back(std::move(*found));
  }
  return lines;
}

std::optional<Instant> StallWatch::next_look() const { return due_; }

}  // namespace trainrun::core
