// The verbs of the table that are not about membership: blobs, barriers, NCCL ids.
#include <fmt/format.h>

#include <algorithm>

#include "launcher/base/strings.h"
#include "rendezvous/protocol.h"
#include "rendezvous/table.h"

namespace trainrun::rendezvous {
namespace {

constexpr std::string_view nccl_prefix = "nccl/";

std::string id_key(std::uint32_t generation, const std::string& group, std::uint32_t index) {
  return fmt::format("{}{}/{}/{}", nccl_prefix, generation, group, index);
}

// Distinct ranks of the world, in order.
bool is_whole(const std::vector<std::uint32_t>& ranks, std::uint32_t size) {
  return ranks.size() == size && std::is_sorted(ranks.begin(), ranks.end());
}

}  // namespace

Table::Body Table::failure(FailureKind kind, std::string message, std::vector<std::uint32_t> missing) const {
  return std::make_shared<const ReplyBody>(Failure{kind, std::move(message), world_.generation,
                                                   std::move(missing),
                                                   kind == FailureKind::over ? verdict_ : std::nullopt});
}

void Table::refuse(const Waiter& waiter, FailureKind kind, std::string message,
                   std::vector<std::uint32_t> missing) {
  answer(waiter, failure(kind, std::move(message), std::move(missing)));
}

bool Table::acceptable_key(const Waiter& waiter, const std::string& key, bool to_write) {
  if (key.empty() || key.size() > max_key)
    refuse(waiter, FailureKind::limit, fmt::format("a key has 1 to {} bytes, not {}", max_key, key.size()));
  else if (to_write && key.starts_with(nccl_prefix))
    refuse(waiter, FailureKind::invalid, "keys under nccl/ are set by publishing NCCL ids");
  else
    return true;
  return false;
}

bool Table::acceptable_group(const Waiter& waiter, const std::string& group) {
  if (group.size() > max_name)
    refuse(waiter, FailureKind::limit,
           fmt::format("the name of a group has at most {} bytes, not {}", max_name, group.size()));
  else if (group.empty() || group.find('/') != std::string::npos)
    refuse(waiter, FailureKind::invalid, "the name of a group is not empty and has no slash");
  else
    return true;
  return false;
}

bool Table::acceptable_ranks(const std::vector<std::uint32_t>& ranks) const {
  const std::set<std::uint32_t> distinct(ranks.begin(), ranks.end());
  return distinct.size() == ranks.size() && (distinct.empty() || *distinct.rbegin() < world_.size);
}

bool Table::store_put(const Waiter& waiter, const std::string& key, const std::string& value) {
  if (value.size() > max_value) {
    refuse(waiter, FailureKind::limit,
           fmt::format("a value has at most {} bytes, not {}", max_value, value.size()));
    return false;
  }
  if (const auto stored = store_.put(key, value); !stored) {
    refuse(waiter, FailureKind::limit, stored.error().message);
    return false;
  }
  return true;
}

void Table::handle(const Put& put, const Waiter& waiter, Instant) {
  if (!acceptable_key(waiter, put.key, true) || !store_put(waiter, put.key, put.value)) return;
  answer(waiter, Done{});
  grant_waits_for(put.key);
}

void Table::handle(const Get& get, const Waiter& waiter, Instant) {
  if (!acceptable_key(waiter, get.key, false)) return;
  if (store_.find(get.key) == nullptr)
    return refuse(waiter, FailureKind::not_found, fmt::format("nobody has put {}", quoted(get.key)));
  answer(waiter, values_of(Keys(std::vector{get.key})));
}

void Table::handle(const Wait& wait, Waiter waiter, Instant now) {
  if (wait.keys.empty() || wait.keys.size() > max_wait_keys)
    return refuse(waiter, FailureKind::limit,
                  fmt::format("one may wait for 1 to {} keys, not {}", max_wait_keys, wait.keys.size()));
  for (const auto& key : wait.keys)
    if (!acceptable_key(waiter, key, false)) return;
  waiter.kind = Waiter::Kind::keys;
  for (const auto& key : wait.keys) waiter.bytes += key.size();
  wait_for_keys(std::move(waiter), Keys(wait.keys), wait.wait_ms, now);
}

void Table::handle(const CompareAndSet& swap, const Waiter& waiter, Instant) {
  if (!acceptable_key(waiter, swap.key, true)) return;
  if (swap.expected && swap.expected->size() > max_value)
    return refuse(waiter, FailureKind::limit,
                  fmt::format("a value has at most {} bytes, not {}", max_value, swap.expected->size()));
  const auto* present = store_.find(swap.key);
  const bool same = present == nullptr ? !swap.expected : swap.expected == *present;
  if (!same) return answer(waiter, Swapped{false, present ? std::optional(*present) : std::nullopt});
  if (!store_put(waiter, swap.key, swap.desired)) return;
  answer(waiter, Swapped{true, swap.desired});
  grant_waits_for(swap.key);
}

void Table::handle(const Gather& gather, Waiter waiter, Instant now) {
  if (gather.prefix.size() > max_prefix || gather.count == 0 || gather.count > max_world)
    return refuse(
        waiter, FailureKind::limit,
        fmt::format("a gather has a prefix of at most {} bytes and 1 to {} keys", max_prefix, max_world));
  waiter.kind = Waiter::Kind::keys;
  waiter.of_all = gather.count == world_.size;
  waiter.bytes = gather.prefix.size();
  wait_for_keys(std::move(waiter), Keys(gather.prefix, gather.count), gather.wait_ms, now);
}

void Table::handle(const FetchIds& fetch, Waiter waiter, Instant now) {
  if (!acceptable_group(waiter, fetch.group)) return;
  if (fetch.size == 0 || fetch.size > world_.size || fetch.first >= world_.size)
    return refuse(waiter, FailureKind::invalid,
                  fmt::format("no group of a world of {} has {} ranks and the first rank {}", world_.size,
                              fetch.size, fetch.first));
  waiter.kind = Waiter::Kind::ids;
  waiter.name = fetch.group;
  waiter.rank = fetch.first;
  const auto count = nccl_id_count(fetch.size);
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < count; ++i) names.push_back(id_key(world_.generation, fetch.group, i));
  Keys keys(std::move(names));
  // All ids of a group come at once, so a group of another size shows at once as well.
  if (store_.find(keys.at(0)) != nullptr &&
      (!store_.has_all(keys) || store_.find(id_key(world_.generation, fetch.group, count)) != nullptr))
    return refuse(waiter, FailureKind::invalid,
                  fmt::format("group {} was published with another number of ranks", quoted(fetch.group)));
  wait_for_keys(std::move(waiter), std::move(keys), fetch.wait_ms, now);
}

void Table::wait_for_keys(Waiter waiter, Keys keys, std::uint32_t wait_ms, Instant now) {
  if (store_.has_all(keys)) return answer(waiter, values_of(keys));
  auto wanted = waiter.bytes;
  if (const auto mine = waiters_of_.find(waiter.connection); mine != waiters_of_.end())
    for (const auto number : mine->second) wanted += waiters_.at(number).bytes;
  if (wanted > max_wanted)
    return refuse(waiter, FailureKind::limit,
                  fmt::format("the keys that one connection waits for have at most {} bytes, not {}",
                              max_wanted, wanted));
  store_.want(add(std::move(waiter), wait_ms, now), std::move(keys));
}

void Table::grant_waits_for(const std::string& key) {
  for (const auto& granted : store_.granted_by(key)) {
    const auto body = std::make_shared<const ReplyBody>(values_of(granted.keys));
    for (const auto number : granted.waiters) answer(remove(number), body);
  }
}

ReplyBody Table::values_of(const Keys& keys) const {
  std::size_t bytes = 64;
  for (std::uint32_t i = 0; i < keys.size(); ++i) bytes += store_.find(keys.at(i))->size() + 4;
  if (bytes > max_reply)
    return Failure{
        FailureKind::limit,
        fmt::format("the {} values are longer together than the limit of {} bytes", keys.size(), max_reply),
        world_.generation,
        {},
        {}};
  Values values;
  for (std::uint32_t i = 0; i < keys.size(); ++i) values.values.push_back(*store_.find(keys.at(i)));
  return values;
}

void Table::handle(const Barrier& barrier, Waiter waiter, Instant now) {
  const auto rank = rank_of(waiter.connection);
  if (barrier.name.size() > max_name)
    return refuse(waiter, FailureKind::limit,
                  fmt::format("the name of a barrier has at most {} bytes", max_name));
  if (!rank || !formed_)
    return refuse(waiter, FailureKind::invalid, "only a member that has joined can be in a barrier");
  static const std::vector<std::uint32_t> all;
  const auto& ranks = is_whole(barrier.ranks, world_.size) ? all : barrier.ranks;
  const auto* const stands = meetings_.find(barrier.name);
  const bool same = stands != nullptr && stands->ranks == ranks;
  if ((!same && !acceptable_ranks(ranks)) ||
      (!ranks.empty() && std::find(ranks.begin(), ranks.end(), *rank) == ranks.end()))
    return refuse(waiter, FailureKind::invalid,
                  "a barrier names ranks of the world, each once, the caller's among them");
  if (stands != nullptr && !same)
    return refuse(waiter, FailureKind::invalid,
                  fmt::format("barrier {} was entered with other ranks", quoted(barrier.name)));
  if (stands != nullptr && stands->here.contains(*rank))
    return refuse(waiter, FailureKind::invalid,
                  fmt::format("this member is in barrier {} already", quoted(barrier.name)));
  if (const auto left = same ? std::nullopt : left_of(ranks))  // one that leaves later ends the barrier
    return refuse(
        waiter, FailureKind::left,
        fmt::format("barrier {} cannot be complete: {} has left", quoted(barrier.name), name_ranks({*left})),
        {*left});
  waiter.kind = Waiter::Kind::barrier;
  waiter.rank = *rank;
  waiter.name = barrier.name;
  meetings_.enter(barrier.name, ranks, *rank, add(std::move(waiter), barrier.wait_ms, now));
  meet_if_complete(barrier.name);
}

// None named: all of the world.
std::optional<std::uint32_t> Table::left_of(const std::vector<std::uint32_t>& ranks) const {
  if (ranks.empty()) return seats_.first_left();
  for (const auto rank : ranks)
    if (seats_.state(rank) == SeatState::left) return rank;
  return std::nullopt;
}

void Table::meet_if_complete(const std::string& name) {
  const auto& meeting = *meetings_.find(name);
  if (meeting.here.size() < (meeting.ranks.empty() ? world_.size : meeting.ranks.size())) return;
  const auto here = meeting.here;
  const auto done = std::make_shared<const ReplyBody>(Done{});
  for (const auto& [rank, number] : here) answer(remove(number), done);
}

void Table::handle(const FetchMembers& fetch, const Waiter& waiter, Instant) {
  if (fetch.count == 0 || fetch.count > max_members)
    return refuse(waiter, FailureKind::limit,
                  fmt::format("one may ask for 1 to {} members, not {}", max_members, fetch.count));
  if (fetch.first >= world_.size || fetch.count > world_.size - fetch.first)
    return refuse(waiter, FailureKind::invalid,
                  fmt::format("a world of {} has no ranks {} to {}", world_.size, fetch.first,
                              std::uint64_t{fetch.first} + fetch.count - 1));
  if (!formed_)
    return refuse(waiter, FailureKind::invalid, "the members are not known before all have joined");
  const auto from = world_.members.begin() + fetch.first;
  answer(waiter, Members{{from, from + fetch.count}});
}

void Table::handle(const PublishIds& publish, const Waiter& waiter, Instant) {
  const auto rank = rank_of(waiter.connection);
  const auto& ranks = publish.ranks;
  if (!acceptable_group(waiter, publish.group)) return;
  if (!rank || ranks.empty() || !acceptable_ranks(ranks) || ranks.front() != *rank)
    return refuse(waiter, FailureKind::invalid, "NCCL ids are published by the first rank of their group");
  if (publish.ids.size() != nccl_id_count(static_cast<std::uint32_t>(ranks.size())))
    return refuse(waiter, FailureKind::invalid,
                  fmt::format("a group of {} ranks has {} NCCL ids, not {}", ranks.size(),
                              nccl_id_count(static_cast<std::uint32_t>(ranks.size())), publish.ids.size()));
  for (const auto& id : publish.ids)
    if (id.size() != nccl_id_size)
      return refuse(waiter, FailureKind::invalid,
                    fmt::format("an NCCL id has {} bytes, not {}", nccl_id_size, id.size()));
  // An id serves one attempt of one communicator; publishing again would mix two of them.
  if (store_.find(id_key(world_.generation, publish.group, 0)) != nullptr)
    return refuse(waiter, FailureKind::exists,
                  fmt::format("the NCCL ids of group {} are published already", quoted(publish.group)));
  for (std::uint32_t i = 0; i < publish.ids.size(); ++i)
    if (!store_put(waiter, id_key(world_.generation, publish.group, i), publish.ids[i])) return;
  answer(waiter, Done{});
  for (std::uint32_t i = 0; i < publish.ids.size(); ++i)
    grant_waits_for(id_key(world_.generation, publish.group, i));
}

}  // namespace trainrun::rendezvous
