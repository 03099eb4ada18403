#include "launcher/core/stall_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>

#include "launcher/base/rank_ranges.h"
#include "launcher/base/utf8.h"

namespace trainrun::core {
namespace {

constexpr std::size_t most_groups = 4096;  // of which is known where their members are
constexpr std::size_t longest_name = 80;
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
  // It says where it is, and so that it is nowhere else any more.
  if (const auto before = inside_.extract(worker)) groups_[before.mapped()].last[worker].inside = false;
  if (!groups_.contains(operation.group) && !has_room()) return;
  if (operation.inside && !due_) due_ = now + limit_;
  operation.name = printable(operation.name.substr(0, longest_name));
  if (operation.inside) inside_.emplace(worker, operation.group);
  groups_[operation.group].last[worker] = {std::move(operation), now};
}

// Groups that are no more are not told of: those in which nobody is make room.
bool StallWatch::has_room() {
  const auto nobody_in = [](const auto& it) {
    return std::ranges::none_of(it.second.last, [](const auto& one) { return one.second.inside; });
  };
  if (groups_.size() >= most_groups) std::erase_if(groups_, nobody_in);
  return groups_.size() < most_groups;
}

std::optional<std::string> StallWatch::line(std::uint32_t number, Group& group,
                                            const std::vector<std::pair<Rank, WorkerId>>& ranks,
                                            Instant now) const {
  const Told* furthest = nullptr;
  for (const auto& [worker, one] : group.last)
    if (one.inside && (furthest == nullptr || one.sequence > furthest->sequence)) furthest = &one;
  if (furthest == nullptr || furthest->sequence == group.told) return std::nullopt;
  if (number == all_ranks && furthest->sequence == 0) return std::nullopt;  // joining has a limit of its own

  std::vector<std::uint32_t> waiting;
  std::map<std::uint64_t, std::vector<std::uint32_t>, std::greater<>> behind;  // by their last operation
  Instant longest = now;
  for (const auto& [rank, worker] : ranks) {
    const auto known = group.last.find(worker);
    if (known == group.last.end()) {
      // Of another group is known how many are in it, not who.
      if (number == all_ranks) behind[0].push_back(rank.value);
    } else if (known->second.inside && known->second.sequence == furthest->sequence) {
      waiting.push_back(rank.value);
      longest = std::min(longest, known->second.since);
    } else if (known->second.sequence < furthest->sequence) {
      behind[known->second.sequence].push_back(rank.value);
    }
  }
  const auto heard = number == all_ranks ? ranks.size() : group.last.size();
  const auto absent = heard < furthest->members ? furthest->members - heard : 0;
  if (waiting.empty() || (behind.empty() && absent == 0) || now - longest < limit_) return std::nullopt;

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
  if (absent > 0)
    late += fmt::format("{}{} of {} members {} not come", late.empty() ? "" : ", ", absent, furthest->members,
                        absent == 1 ? "has" : "have");
  const auto number_text = furthest->sequence == 0 ? "" : fmt::format(" number {}", furthest->sequence);
  return fmt::format("{}: {} {} waited {} in {}{}{}", late, ranks_text(waiting),
                     waiting.size() == 1 ? "has" : "have", format_duration(now - longest), furthest->name,
                     number_text, size_text(furthest->bytes));
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
      if (found) group.told = std::max(group.told.value_or(0), one.sequence);
    }
    if (found) lines.push_back(std::move(*found));
  }
  return lines;
}

std::optional<Instant> StallWatch::next_look() const { return due_; }

}  // namespace trainrun::core
