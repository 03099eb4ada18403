#include "launcher/core/stall_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>

#include "launcher/base/rank_ranges.h"
#include "launcher/base/utf8.h"

namespace trainrun::core {
namespace {

constexpr std::size_t most_recent = 8;  // groups of a rank
constexpr std::size_t longest_name = 80;
constexpr std::size_t most_told = 4;   // of ranks that are late in different ways
constexpr std::size_t most_lines = 4;  // of a look
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
  if (operation.inside && !due_) due_ = now + limit_;
  operation.name = printable(operation.name.substr(0, longest_name));
  auto& one = workers_[worker];
  std::erase_if(one.recent, [&](const auto& it) { return it.first == operation.group; });
  one.recent.emplace(one.recent.begin(), operation.group, operation.sequence);
  if (one.recent.size() > most_recent) one.recent.pop_back();
  one.last = std::move(operation);
  one.since = now;
}

std::map<std::uint32_t, StallWatch::Wait> StallWatch::waits(const Ranks& ranks) const {
  std::map<std::uint32_t, Wait> found;
  for (const auto& [rank, worker] : ranks) {
    const auto known = workers_.find(worker);
    if (known == workers_.end() || !known->second.last.inside) continue;
    const auto& last = known->second.last;
    if (last.group == all_ranks && last.sequence == 0) continue;  // joining has a limit of its own
    auto& wait = found[last.group];
    if (wait.operation != nullptr && wait.operation->sequence > last.sequence) continue;
    if (wait.operation == nullptr || wait.operation->sequence < last.sequence)
      wait = {&last, {}, known->second.since};
    wait.ranks.push_back(rank.value);
    wait.since = std::min(wait.since, known->second.since);
  }
  return found;
}

std::string StallWatch::late_for(const Wait& wait, const Ranks& ranks, const std::set<Rank>& silent) const {
  const auto& operation = *wait.operation;
  const bool of_all = operation.group == all_ranks;
  const auto size = of_all ? ranks.size() : operation.members;
  if (wait.ranks.size() >= size) return {};
  std::size_t come = wait.ranks.size(), late = 0;
  // By how they are late, in the order in which ranks are.
  std::vector<std::pair<std::string, std::vector<std::uint32_t>>> ways;
  for (const auto& [rank, worker] : ranks) {
    const auto known = workers_.find(worker);
    const auto* const last = known == workers_.end() ? nullptr : &known->second.last;
    if (last != nullptr && last->group == operation.group && last->sequence == operation.sequence &&
        last->inside)
      continue;  // it waits
    std::optional<std::uint64_t> got_to;
    if (last != nullptr)
      for (const auto& [group, sequence] : known->second.recent)
        if (group == operation.group) got_to = sequence;
    if (!got_to && !of_all) continue;  // nobody knows who is in it
    if (got_to && *got_to >= operation.sequence) {
      ++come;  // and has gone on
      continue;
    }
    ++late;
    std::string way = "has not come";
    if (silent.contains(rank))
      way = "has gone silent (stopped?)";
    else if (last != nullptr && last->inside && last->group != operation.group)
      way = "is in " + last->name;
    else if (of_all && (last == nullptr || last->group == all_ranks))
      way = fmt::format("is {} operation{} behind", operation.sequence - got_to.value_or(0),
                        operation.sequence - got_to.value_or(0) == 1 ? "" : "s");
    const auto same = std::ranges::find(ways, way, [](const auto& it) { return it.first; });
    if (same != ways.end())
      same->second.push_back(rank.value);
    else if (ways.size() < most_told)
      ways.push_back({way, {rank.value}});
  }
  if (come >= size) return {};
  if (!of_all && late < size - come)
    return fmt::format("{} of {} members {} not come", size - come, size, size - come == 1 ? "has" : "have");
  std::string words;
  std::size_t named = 0;
  for (auto& [way, who] : ways) {
    if (who.size() > 1) way = (way.starts_with("has") ? "have" : "are") + way.substr(way.find(' '));
    words += fmt::format("{}{} {}", words.empty() ? "" : ", ", ranks_text(who), way);
    named += who.size();
  }
  if (late > named) words += fmt::format(", {} more {} late", late - named, late - named == 1 ? "is" : "are");
  return words;
}

std::vector<std::string> StallWatch::look(const Ranks& ranks, Instant now, const std::set<Rank>& silent) {
  const bool late = due_ && now - *due_ > stood_still;
  due_.reset();
  for (auto& [worker, one] : workers_) {
    if (!one.last.inside) continue;
    if (late) one.since = now;
    const auto next = one.since + limit_ > now ? one.since + limit_ : now + limit_;
    due_ = due_ ? std::min(*due_, next) : next;
  }
  // Others that begin to wait a little later are looked at together.
  if (due_) due_ = std::max(*due_, now + limit_ / 60);

  const auto all = waits(ranks);
  std::erase_if(told_, [&](const auto& it) { return !all.contains(it.first); });
  std::vector<const Wait*> long_ones;
  for (const auto& [group, wait] : all) {
    const auto told = told_.find(group);
    if (now - wait.since >= limit_ && (told == told_.end() || told->second != wait.operation->sequence))
      long_ones.push_back(&wait);
  }
  std::ranges::stable_sort(long_ones, {}, &Wait::since);
  std::vector<std::string> lines;
  std::size_t others = 0;
  for (const auto* wait : long_ones) {
    const auto& operation = *wait->operation;
    if (lines.size() == most_lines) {
      ++others;
    } else if (const auto who = late_for(*wait, ranks, silent); !who.empty()) {
      const auto number = operation.sequence == 0 ? "" : fmt::format(" number {}", operation.sequence);
      lines.push_back(fmt::format("{}: {} {} waited {} in {}{}{}", who, ranks_text(wait->ranks),
                                  wait->ranks.size() == 1 ? "has" : "have",
                                  format_duration(now - wait->since), operation.name, number,
                                  size_text(operation.bytes)));
    } else {
      continue;
    }
    told_[operation.group] = operation.sequence;
  }
  if (others > 0)
    lines.push_back(
        fmt::format("ranks wait in operations of {} more group{}", others, others == 1 ? "" : "s"));
  return lines;
}

}  // namespace trainrun::core
