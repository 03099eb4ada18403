// Groups of some of the ranks: they meet as those of the world do, under a name of their own.
#include <fmt/format.h>

#include <algorithm>

#include "comm/backends/factory.h"
#include "comm/backends/local_backend.h"
#include "comm/group_making.h"
#include "comm/world.h"
#include "launcher/base/hash.h"
#include "rendezvous/protocol.h"

namespace trainrun::comm {
namespace {

constexpr Duration members_wait = seconds(2);
// How long a rank waits for the members of a group before it says which group it makes, and looks at what the
// others say.
constexpr Duration look_after = seconds(5);
// Ranks that each asks about, of its own group and further on: all ranks may be waiting.
constexpr std::size_t asked_a_look = 32;

// In which a group is told from others of the same ranks; two with the same number are made in turn.
std::uint64_t number_of(const std::vector<std::uint32_t>& ranks) {
  const std::vector<std::uint64_t> wide(ranks.begin(), ranks.end());
  return shape_of(wide);
}

// The name of the group that it waits for.
std::string making_key(std::uint32_t rank) { return fmt::format("comm/making/{}", rank); }
std::string list_key(std::string_view name) { return fmt::format("comm/group/{}/of", name); }
std::string came_key(std::uint32_t rank, const Making& making) {
  return fmt::format("comm/group/{}/came/{}", making.name,
                     std::ranges::find(making.ranks, rank) - making.ranks.begin());
}

bool has_come(rendezvous::Client& client, std::uint32_t rank, const Making& making) {
  const auto came = client.get(came_key(rank, making));
  return came || came.error().kind != rendezvous::FailureKind::not_found;
}
std::vector<std::uint32_t> absent_from(rendezvous::Client& client, const Making& making) {
  std::vector<std::uint32_t> absent;
  for (const auto rank : making.ranks)
    if (absent.size() < rendezvous::max_missing && !has_come(client, rank, making)) absent.push_back(rank);
  return absent;
}

// The group that a rank waits for, if it does; `own` is known.
std::optional<Making> made_by(rendezvous::Client& client, std::uint32_t rank, const Making& own) {
  const auto name = client.get(making_key(rank));
  if (!name || name->empty()) return std::nullopt;
  if (*name == own.name) return own;
  const auto list = client.get(list_key(*name));
  return list ? making_of(*name, *list) : std::nullopt;
}

}  // namespace

Group::Links World::links(std::vector<std::uint32_t> ranks, const std::string& name,
                          const std::string& operation) {
  Group::Links links;
  links.operation = operation;
  links.pair = [this, ranks, name](int from, int to) { return open_pair(ranks, name, from, to); };
  // After it the world is over, on all ranks; but first all members hear of it in words of their own.
  if (!ranks.empty())
    links.disagreed = [this, ranks, name](const Failure& failure) {
      end_in_mismatch(failure, fmt::format("comm/group/{}/mismatch", name), ranks, members_wait);
    };
  links.world_ranks = std::move(ranks);
  links.name = name;
  return links;
}

void World::end_in_mismatch(const Failure& failure, const std::string& meeting,
                            const std::vector<std::uint32_t>& ranks, Duration within) {
  {
    const std::lock_guard lock(mismatch_mutex_);
    mismatch_ = failure;
  }
  {
    const std::lock_guard lock(client_mutex_);
    // By a connection that is no member's, so that others hear what it was and nobody to blame. It is made
    // before the first of them ends the world, and perhaps its server.
    auto messenger = connect(members_wait);
    static_cast<void>(client_->barrier(meeting, ranks, within));
    static_cast<void>((messenger ? *messenger : *client_).abort(failure.message.substr(0, 1024), {}));
  }
  // What this process calls next must not get on before the watcher has heard of it.
  groups_.abort();
}

Outcome<void> World::put_in_order(std::vector<std::uint32_t>& ranks) const {
  std::sort(ranks.begin(), ranks.end());
  if (ranks.empty()) return fail(TRC_INVALID, "a group of no ranks");
  if (std::adjacent_find(ranks.begin(), ranks.end()) != ranks.end())
    return fail(TRC_INVALID, "a rank is named twice in a group");
  if (ranks.back() >= world_.size)
    return fail(TRC_INVALID, fmt::format("there is no rank {} among {}", ranks.back(), world_.size));
  if (finalized_) return fail(TRC_INVALID, "a group after the world was finalized");
  return {};
}

std::string World::next_name(const std::vector<std::uint32_t>& ranks, const std::string& purpose) {
  const auto own = number_of(ranks);
  const auto number = purpose.empty() ? own : fnv1a(fmt::format("{:x} {}", own, purpose));
  const std::lock_guard lock(names_mutex_);
  return fmt::format("{:x}-{}-{}", number, ranks.size(), ++named_[number]);
}

Outcome<Group*> World::make_group(std::vector<std::uint32_t> ranks) {
  if (auto good = put_in_order(ranks); !good) return tl::unexpected(good.error());
  if (!std::binary_search(ranks.begin(), ranks.end(), rank_)) return nullptr;
  if (ranks.size() == 1)
    return &groups_.add(std::make_unique<Group>(
        0, 1, std::make_unique<LocalBackend>(), op_timeout_,
        [](const std::string& operation, bool, const std::string& text) {
          Failure failure;
          failure.status = TRC_ABORTED;
          failure.message = operation + ": " + text;
          return failure;
        },
        Group::Links{ranks, {}, {}, {}}));
  const auto name = next_name(ranks);
  auto client = connect(op_timeout_);
  if (!client) return tl::unexpected(client.error());
  const Errands::Running running(watcher_->errands(), *client);
  const Making making{name, ranks};
  const Groups::Opening here(groups_, name, ranks.size(), "creation of a group " + among(ranks));
  if (auto met = meet_members(*client, making); !met) return tl::unexpected(met.error());
  auto opened = open_group(*client, std::move(ranks), name, "making " + words_of(making));
  if (!opened) return opened;
  const std::lock_guard lock(names_mutex_);
  group_names_[*opened] = name;
  return opened;
}

// Ranks that wait for each other in groups of different ranks would do so until their time has passed, and
// then each would take another one for late.
Outcome<void> World::meet_members(rendezvous::Client& client, const Making& making) {
  const auto deadline = std::chrono::steady_clock::now() + op_timeout_;
  const auto operation = "making " + words_of(making);
  if (auto put = client.put(came_key(rank_, making), {}); !put)
    return tl::unexpected(errand_failure(operation, failure_of(put.error())));
  RingWatch rings({rank_, making},
                  {[&](std::uint32_t rank) { return made_by(client, rank, making); },
                   [&](std::uint32_t rank, const Making& of) { return has_come(client, rank, of); },
                   asked_a_look, asked_a_look});
  for (bool waited = false;; waited = true) {
    const auto met = client.gather(fmt::format("comm/group/{}/came/", making.name),
                                   static_cast<std::uint32_t>(making.ranks.size()),
                                   std::min(left_until(deadline), look_after));
    if (met) {
      if (waited) static_cast<void>(client.put(making_key(rank_), {}));
      return {};
    }
    const auto failure = failure_of(met.error());
    if (failure.status != TRC_TIMEOUT || failure.of_world)
      return tl::unexpected(errand_failure(operation, failure));
    if (std::chrono::steady_clock::now() >= deadline)
      return tl::unexpected(explain_absence(operation, absent_from(client, making)));
    if (!waited) static_cast<void>(client.put(list_key(making.name), list_of(making)));
    static_cast<void>(client.put(making_key(rank_), making.name));
    if (const auto ring = rings.look(); !ring.empty()) return tl::unexpected(crossed(ring));
  }
}

Failure World::crossed(const std::vector<Waiting>& ring) {
  const auto failure = fail(TRC_MISMATCH, words_of(ring)).value();
  const auto ranks = ranks_in(ring);
  // The others find out by themselves, as soon as they look the next time.
  end_in_mismatch(failure, fmt::format("comm/crossed/{:x}", number_of(ranks)), ranks,
                  look_after + members_wait);
  return failure;
}

Outcome<Group*> World::open_group(rendezvous::Client& client, std::vector<std::uint32_t> ranks,
                                  const std::string& name, const std::string& opening,
                                  const std::string& operation) {
  const auto deadline = std::chrono::steady_clock::now() + op_timeout_;
  std::vector<rendezvous::Member> members;
  for (const auto rank : ranks) members.push_back(world_.members[rank]);
  const auto own = static_cast<std::uint32_t>(std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin());
  auto draft = make_backend(
      {client, members, own, fmt::format("comm/group/{}/", name), address_,
       environment_.backend == BackendChoice::shm ? BackendChoice::automatic : environment_.backend,
       environment_.key_file, deadline});
  const auto why = [&](const Failure& failure, const std::string& text) {
    if (failure.status != TRC_TIMEOUT || failure.of_world) return errand_failure(opening, failure);
    if (failure.missing.empty()) return explain(opening, true, text, ranks, name);
    std::vector<std::uint32_t> missing;
    for (const auto member : failure.missing) missing.push_back(ranks.at(member));
    return explain_absence(opening, std::move(missing), text);
  };
  if (!draft) return tl::unexpected(why(draft.error(), {}));
  auto& group = groups_.add(std::make_unique<Group>(
      static_cast<int>(own), static_cast<int>(ranks.size()), std::move(draft->backend), op_timeout_,
      [this, ranks, name](const std::string& what, bool timed_out, const std::string& text) {
        return explain(what, timed_out, text, ranks, name);
      },
      links(ranks, name, operation)));
  if (!draft->connect) return &group;
  const auto connected = group.connect(draft->connect, deadline, [&](const Outcome<Moved>& failed) {
    if (failed) return explain_connection(opening, failed->error(), deadline, ranks, name);
    return why(failed.error(), failed.error().message);
  });
  if (connected) return &group;
  groups_.remove(group);
  return tl::unexpected(connected.error());
}

Outcome<Group*> World::open_pair(const std::vector<std::uint32_t>& ranks, const std::string& name, int from,
                                 int to) {
  const auto in_world = [&](int member) {
    return ranks.empty() ? static_cast<std::uint32_t>(member) : ranks[static_cast<std::size_t>(member)];
  };
  const auto [gives, gets] = std::pair(in_world(from), in_world(to));
  const auto pair = fmt::format("{}/{}-{}", name, gives, gets);
  const auto operation =
      gives == rank_ ? fmt::format("send to rank {}", gets) : fmt::format("receive from rank {}", gives);
  const Groups::Opening here(groups_, pair, 2, "the first " + operation);
  auto client = connect(op_timeout_);
  if (!client) return tl::unexpected(errand_failure("the first " + operation, client.error()));
  const Errands::Running running(watcher_->errands(), *client);
  return open_group(*client, {std::min(gives, gets), std::max(gives, gets)}, pair, "the first " + operation,
                    operation);
}

// When all have come here nobody reads from another's connections any more.
Outcome<void> World::close_group(Group& group) {
  if (&group == group_) return fail(TRC_INVALID, "the group of all ranks ends with its world");
  const auto name = [&] {
    const std::lock_guard lock(names_mutex_);
    const auto found = group_names_.extract(&group);
    return found.empty() ? std::string() : found.mapped();
  }();
  if (!name.empty() && !groups_.broken()) {
    if (auto met = group.barrier(); !met) return met;
    auto client = connect(op_timeout_);
    if (!client) return tl::unexpected(client.error());
    const Errands::Running running(watcher_->errands(), *client);
    const auto end = fmt::format("comm/group/{}/end/", name);
    if (auto put = client->put(fmt::format("{}{}", end, group.rank()), ""); !put)
      return tl::unexpected(failure_of(put.error()));
    if (auto met = client->gather(end, static_cast<std::uint32_t>(group.size()), op_timeout_); !met)
      return tl::unexpected(errand_failure("closing a group of ranks", failure_of(met.error())));
  }
  remove(group);
  return {};
}

Outcome<bool> World::leave_group(Group& group) {
  if (&group == group_) return fail(TRC_INVALID, "the group of all ranks ends with its world");
  std::string name;
  bool told = true;
  {
    const std::lock_guard lock(names_mutex_);
    if (const auto found = group_names_.find(&group); found != group_names_.end()) {
      name = found->second;
      told = left_.contains(&group);
    }
  }
  if (!name.empty()) {
    if (groups_.broken()) return false;
    auto client = connect(members_wait);
    if (!client) return tl::unexpected(client.error());
    const Errands::Running running(watcher_->errands(), *client);
    const auto end = fmt::format("comm/group/{}/end/", name);
    if (!told)
      if (auto put = client->put(fmt::format("{}{}", end, group.rank()), ""); !put)
        return tl::unexpected(failure_of(put.error()));
    const auto met =
        client->gather(end, static_cast<std::uint32_t>(group.size()), std::chrono::milliseconds(1));
    const std::lock_guard lock(names_mutex_);
    if (!met) {
      left_.insert(&group);
      auto failure = failure_of(met.error());
      if (failure.status == TRC_TIMEOUT) return false;
      return tl::unexpected(std::move(failure));
    }
    group_names_.erase(&group);
    left_.erase(&group);
  }
  remove(group);
  return true;
}

void World::remove(Group& group) {
  for (const auto* const pair : group.pairs()) groups_.remove(*pair);
  groups_.remove(group);
}

}  // namespace trainrun::comm
