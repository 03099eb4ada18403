#include "rendezvous/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "launcher/base/strings.h"
#include "launcher/wire/frame.h"

namespace trainrun::rendezvous {
namespace {

// Parts that go in one message: with the largest part behind them the frame is still within its limit.
constexpr std::size_t enough_for_a_frame = wire::frame_limit - wire::gather_limit - (64u << 10);

std::vector<Rank> common(const std::vector<Rank>& group, const std::set<Rank>& gone) {
  if (group.empty()) return {gone.begin(), gone.end()};
  std::vector<Rank> both;
  for (const auto rank : group)
    if (gone.contains(rank)) both.push_back(rank);
  return both;
}

std::string names(const std::vector<Rank>& ranks) {
  std::vector<std::string> each;
  for (const auto rank : ranks) each.push_back(std::to_string(rank.value));
  return (ranks.size() == 1 ? "rank " : "ranks ") + list_names(each);
}

}  // namespace

void Exchange::begin(Generation generation, std::vector<HostIndex> hosts) {
  generation_ = generation;
  open_ = true;
  hosts_ = std::move(hosts);
  gone_.clear();
  excused_.clear();
  groups_.clear();
  questions_.clear();
}

Exchange::Effects Exchange::end(Generation generation, const std::string& reason) {
  if (!is_open(generation)) return {};
  auto effects = fail({}, reason);
  effects.broken.reset();  // who ends it knows
  return effects;
}

Exchange::Effects Exchange::lost(const wire::ExchangeLost& loss) {
  return is_open(loss.generation) ? fail({}, loss.reason) : Effects{};
}

Exchange::Effects Exchange::left(Generation generation, Rank rank) {
  if (!is_open(generation) || rank.value >= hosts_.size()) return {};
  gone_.insert(rank);
  for (const auto& [key, group] : groups_) {
    const auto& ranks = key.second;
    const bool takes_part = ranks.empty() || std::binary_search(ranks.begin(), ranks.end(), rank);
    if (takes_part && group.pending && !group.pending->parts.contains(hosts_[rank.value]))
      return fail_for({rank});
  }
  return {};
}

Exchange::Effects Exchange::died(Generation generation, Rank rank) {
  if (!is_open(generation) || rank.value >= hosts_.size()) return {};
  const auto world = groups_.find({wire::Dialect::pmix, {}});
  if (world == groups_.end() || world->second.done == 0) return left(generation, rank);
  excused_.insert(rank);
  Effects effects;
  for (auto& [key, group] : groups_) {
    if (!group.pending || !all_came(key.second, group)) continue;
    auto more = complete(key, group);
    std::move(more.messages.begin(), more.messages.end(), std::back_inserter(effects.messages));
  }
  return effects;
}

Exchange::Effects Exchange::gather(HostIndex from, wire::Gather part) {
  if (!is_open(part.generation) || !is_group(part.group)) return {};
  const Key key{part.dialect, part.group};
  auto known = groups_.find(key);
  std::vector<HostIndex> new_hosts;
  if (known == groups_.end()) new_hosts = hosts_of(part.group);
  const auto& hosts = known == groups_.end() ? new_hosts : known->second.hosts;
  if (!std::binary_search(hosts.begin(), hosts.end(), from)) return {};
  // It speaks for its own ranks alone.
  std::erase_if(part.missing,
                [&](Rank rank) { return rank.value >= hosts_.size() || hosts_[rank.value] != from; });
  if (!part.missing.empty()) return fail_for(std::move(part.missing));
  if (part.bytes.size() > wire::gather_limit)
    return fail({}, fmt::format("a host has {} bytes for one exchange, and {} are allowed", part.bytes.size(),
                                wire::gather_limit));
  if (known == groups_.end()) {
    if (groups_.size() >= most_groups)
      return fail({}, fmt::format("more than {} groups of ranks exchange something", most_groups));
    known = groups_.emplace(key, Group{std::move(new_hosts), 0, {}}).first;
  }
  auto& group = known->second;
  // Late or double ones are dropped; none can run ahead, since each waits for the answer to the last.
  if (part.sequence != group.done + 1) return {};
  if (!group.pending) {  // who ends later, before its host's part is here, fails it at once: left()
    if (auto gone = common(part.group, gone_); !gone.empty()) return fail_for(std::move(gone));
    group.pending.emplace();
  }
  auto& pending = *group.pending;
  if (pending.parts.contains(from)) return {};
  pending.bytes += part.bytes.size();
  if (pending.bytes > most_bytes)
    return fail({}, fmt::format("the ranks have more than {} MiB for one exchange", most_bytes >> 20));
  pending.parts.emplace(from, std::move(part.bytes));
  return all_came(part.group, group) ? complete(key, group) : Effects{};
}

// Hosts on which nobody of the group lives any more are not waited for.
bool Exchange::all_came(const std::vector<Rank>& ranks, const Group& group) const {
  const auto& parts = group.pending->parts;
  if (parts.size() == group.hosts.size()) return true;
  if (excused_.empty()) return false;
  const auto waited_for = [&](Rank rank) {
    return !excused_.contains(rank) && !parts.contains(hosts_[rank.value]);
  };
  if (!ranks.empty()) return std::none_of(ranks.begin(), ranks.end(), waited_for);
  for (std::uint32_t rank = 0; rank < hosts_.size(); ++rank)
    if (waited_for(Rank{rank})) return false;
  return true;
}

Exchange::Effects Exchange::complete(const Key& key, Group& group) const {
  Effects effects;
  wire::Gathered message{generation_, key.second, ++group.done, {}, false, key.first};
  std::size_t bytes = 0;
  for (auto& [host, part] : group.pending->parts) {
    if (bytes > enough_for_a_frame) {
      effects.messages.push_back({group.hosts, message});
      message.parts.clear();
      bytes = 0;
    }
    bytes += part.size();
    message.parts.push_back(std::move(part));
  }
  message.last = true;
  effects.messages.push_back({group.hosts, std::move(message)});
  group.pending.reset();
  return effects;
}

Exchange::Effects Exchange::ask(HostIndex from, const wire::Ask& question) {
  if (!is_open(question.generation)) return {};
  if (question.rank.value >= hosts_.size() || question.key.size() > longest_key ||
      questions_.size() >= most_questions)
    return {{{{from}, wire::Answer{generation_, question.question, false, {}}}}, {}};
  const auto to = hosts_[question.rank.value];
  const auto number = ++last_question_;
  questions_.emplace(number, Question{from, to, question.question});
  return {{{{to}, wire::Ask{generation_, number, question.rank, question.key, question.dialect}}}, {}};
}

Exchange::Effects Exchange::answer(HostIndex from, wire::Answer answer) {
  const auto it = questions_.find(answer.question);
  if (!is_open(answer.generation) || it == questions_.end() || it->second.to != from) return {};
  const auto question = it->second;
  questions_.erase(it);
  answer.question = question.number;
  if (answer.bytes.size() > wire::gather_limit) answer = {generation_, question.number, false, {}};
  return {{{{question.from}, std::move(answer)}}, {}};
}

bool Exchange::is_group(const std::vector<Rank>& ranks) const {
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (ranks[i].value >= hosts_.size() || (i > 0 && ranks[i - 1] >= ranks[i])) return false;
  return true;
}

std::vector<HostIndex> Exchange::hosts_of(const std::vector<Rank>& ranks) const {
  std::set<HostIndex> hosts;
  if (ranks.empty()) hosts.insert(hosts_.begin(), hosts_.end());
  for (const auto rank : ranks) hosts.insert(hosts_[rank.value]);
  return {hosts.begin(), hosts.end()};
}

Exchange::Effects Exchange::fail_for(std::vector<Rank> gone) {
  std::sort(gone.begin(), gone.end());
  auto reason = names(gone) + " ended while others waited for " + (gone.size() == 1 ? "it" : "them");
  return fail(std::move(gone), reason);
}

// Every host hears of it, also one that waits for ranks of its own and has sent nothing yet.
Exchange::Effects Exchange::fail(std::vector<Rank> culprits, const std::string& reason) {
  open_ = false;
  groups_.clear();
  questions_.clear();
  return {{{hosts_of({}), wire::GatherFailed{generation_, reason}}},
          Broken{generation_, std::move(culprits), reason}};
}

}  // namespace trainrun::rendezvous
