// The life of a generation: begin, join, verdict; waiters and their deadlines. How members go:
// table_departures.cc. From one generation to the next: table_elastic.cc. The other verbs: table_verbs.cc.
#include "rendezvous/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/base/strings.h"
#include "rendezvous/protocol.h"

namespace trainrun::rendezvous {
namespace {

constexpr std::size_t most_named = 8;  // in one message, of ranks or keys

// "a, b and 7 more": `names` are the first of so many.
std::string list_first(std::vector<std::string> names, std::size_t count) {
  if (count > names.size()) names.push_back(fmt::format("{} more", count - names.size()));
  return list_names(names, names.size());
}

}  // namespace

Outbox Table::apply(std::uint32_t connection, const Request& request, Instant now) {
  Waiter waiter;
  waiter.connection = connection;
  waiter.request = request.id;
  waiter.after = request.generation;
  const auto pending = waiters_of_.find(connection);
  const bool too_many = pending != waiters_of_.end() && pending->second.size() >= max_waits;
  if (const auto* next = std::get_if<Next>(&request.body); next != nullptr && !too_many) {
    handle(*next, std::move(waiter), now);  // legal in every generation, and when it is over
  } else if (request.generation != world_.generation || world_.generation == 0) {
    refuse(waiter, FailureKind::stale,
           fmt::format("generation {} is not the current one, which is {}", request.generation,
                       world_.generation));
  } else if (has_left(request)) {
    refuse(waiter, FailureKind::invalid,
           fmt::format("{} has left the world of generation {} already; a rank meets it once",
                       name_ranks({*std::get<Join>(request.body).rank}), world_.generation));
  } else if (verdict_) {
    if (std::holds_alternative<Watch>(request.body))
      answer(waiter, Over{*verdict_});
    else if (std::holds_alternative<Leave>(request.body))
      answer(waiter, Done{});
    else
      refuse(waiter, FailureKind::over, describe(*verdict_));
  } else if (too_many) {
    refuse(waiter, FailureKind::limit,
           fmt::format("a connection may have {} unanswered requests, not more", max_waits));
  } else {
    std::visit([&](const auto& body) { handle(body, waiter, now); }, request.body);
  }
  return take();
}

// A join of a rank that was here and went in order. It is told so whether or not the others have gone as
// well: by another error an elastic program would take its own second start for a failure of the world.
bool Table::has_left(const Request& request) const {
  const auto* join = std::get_if<Join>(&request.body);
  return join != nullptr && join->rank && *join->rank < world_.size &&
         seats_.state(*join->rank) == SeatState::left;
}

void Table::handle(const Join& join, Waiter waiter, Instant now) {
  waiter.kind = Waiter::Kind::join;
  waiter.member.host = join.host;
  waiter.member.address = join.address;
  waiter.by_arrival = !join.rank.has_value();
  waiter.rank = join.rank.value_or(0);
  waiter.elastic = join.elastic;
  const auto mine = waiters_of_.find(waiter.connection);
  const bool twice =
      seat_of_.contains(waiter.connection) ||
      (mine != waiters_of_.end() && std::any_of(mine->second.begin(), mine->second.end(), [&](auto number) {
         return waiters_.at(number).kind == Waiter::Kind::join;
       }));
  if (join.host.size() > max_name || join.address.size() > max_name)
    return refuse(waiter, FailureKind::limit,
                  fmt::format("a host or address is longer than {} bytes", max_name));
  if (twice) return refuse(waiter, FailureKind::invalid, "this connection has joined already");
  if (join.rank && *join.rank >= world_.size)
    return refuse(waiter, FailureKind::invalid,
                  fmt::format("rank {} does not exist in a world of {}", *join.rank, world_.size));
  if (const auto theirs = join.rank ? world_.members[*join.rank].worker : 0;
      theirs != 0 && join.worker != 0 && theirs != join.worker)
    return refuse(waiter, FailureKind::invalid,
                  fmt::format("rank {} of generation {} is worker {}, not worker {}", *join.rank,
                              world_.generation, theirs, join.worker));
  if (join.rank && seats_.state(*join.rank) != SeatState::empty)
    return refuse(waiter, FailureKind::exists, fmt::format("{} is taken already", name_ranks({*join.rank})));
  if (formed_ || seats_.count(SeatState::empty) <= arrivals_)
    return refuse(
        waiter, FailureKind::exists,
        fmt::format("all {} members of generation {} are here already", world_.size, world_.generation));

  if (!join.rank && gave_up_ > 0) --gave_up_;  // most likely one that tries again
  if (join.rank) tired_.erase(*join.rank);
  some_want_this_world_ = some_want_this_world_ || !join.elastic;
  const auto connection = waiter.connection;
  if (join.rank && !described_) world_.members[*join.rank].host = join.host;
  const auto number = add(std::move(waiter), join.wait_ms, now);
  if (join.rank) {
    seats_.put(*join.rank, SeatState::waiting, {.connection = connection, .waiter = number});
    seat_of_[connection] = *join.rank;
    events_.emplace_back(MemberJoined{{world_.generation}, {*join.rank}});
  }
  end_if_it_cannot_form();
  if (seats_.count(SeatState::waiting) + arrivals_ == world_.size) seat_all(now);
}

void Table::seat_all(Instant now) {
  formed_ = true;
  std::vector<WaiterNumber> joins;
  for (const auto& [number, waiter] : waiters_)
    if (waiter.kind == Waiter::Kind::join) joins.push_back(number);
  auto free = seats_.empty();
  std::vector<Waiter> joined;
  for (const auto number : joins) {
    auto waiter = remove(number);
    if (waiter.by_arrival) {
      waiter.rank = free.extract(free.begin()).value();
      events_.emplace_back(MemberJoined{{world_.generation}, {waiter.rank}});
    }
    auto& member = world_.members[waiter.rank];
    if (!described_) member.host = waiter.member.host;
    if (!waiter.member.address.empty()) member.address = waiter.member.address;
    seats_.put(waiter.rank, SeatState::taken, {.connection = waiter.connection, .heard = now});
    seat_of_[waiter.connection] = waiter.rank;
    elastic_ = elastic_ && waiter.elastic;
    joined.push_back(std::move(waiter));
  }
  events_.emplace_back(Formed{{world_.generation}, elastic_});
  if (!described_) {  // members of one host, in the order of their ranks
    std::map<std::string, std::uint32_t> on_host;
    for (auto& member : world_.members) member.local_rank = on_host[member.host]++;
    for (auto& member : world_.members) member.local_size = on_host[member.host];
  }
  const auto digest = digest_of(world_.members);
  for (const auto& waiter : joined)
    answer(waiter, Joined{world_.generation, world_.size, world_.job, digest, world_.members[waiter.rank]});
}

void Table::handle(const Watch& watch, Waiter waiter, Instant now) {
  waiter.kind = Waiter::Kind::watch;
  add(std::move(waiter), watch.wait_ms, now);
}

Outbox Table::end(Generation generation, std::string reason, Verdict::Kind kind) {
  if (generation.value == world_.generation && !verdict_) finish({kind, {}, {}, std::move(reason), {}});
  return take();
}

void Table::finish(Verdict verdict) {
  verdict_ = std::move(verdict);
  suspects_.clear();
  std::vector<WaiterNumber> all;
  for (const auto& [number, waiter] : waiters_)
    if (waiter.kind != Waiter::Kind::next) all.push_back(number);
  const auto over = std::make_shared<const ReplyBody>(Over{*verdict_});
  const auto refusal = failure(FailureKind::over, describe(*verdict_));
  for (const auto number : all) {
    const auto waiter = remove(number);
    answer(waiter, waiter.kind == Waiter::Kind::watch ? over : refusal);
  }
  store_ = Store();
}

void Table::break_up(Verdict verdict) {
  events_.emplace_back(Broken{{world_.generation}, verdict});
  finish(std::move(verdict));
}

std::optional<Instant> Table::next_deadline() const {
  std::optional<Instant> next;
  if (!deadlines_.empty()) next = deadlines_.begin()->first;
  if (!suspects_.empty() && (!next || suspects_.front().until < *next)) next = suspects_.front().until;
  return next;
}

Outbox Table::advance(Instant now) {
  while (!suspects_.empty() && suspects_.front().until <= now) {
    const auto suspect = std::move(suspects_.front());
    suspects_.pop_front();
    if (seats_.state(suspect.rank) == SeatState::left) continue;
    if (seats_.at(suspect.rank).leaves_at_close)
      leave_unmet(suspect.rank);
    else
      break_up({Verdict::Kind::lost, suspect.rank, world_.members[suspect.rank].host, suspect.how, {}});
  }
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) time_out(deadlines_.begin()->second);
  return take();
}

void Table::time_out(WaiterNumber number) {
  const auto& waiter = waiters_.at(number);
  std::vector<std::uint32_t> missing;
  std::string message;
  switch (waiter.kind) {
    case Waiter::Kind::join:
      missing = absent();
      message = not_joined();
      if (!waiter.by_arrival) tired_.insert(waiter.rank);
      if (waiter.by_arrival && gave_up_ < world_.size) ++gave_up_;
      break;
    case Waiter::Kind::keys: {
      const auto& keys = store_.wanted(number);
      const auto lacking = store_.lacking(number, max_missing);
      std::vector<std::string> names;
      for (const auto index : lacking.first)
        if (names.size() < most_named) names.push_back(quoted(keys.at(index)));
      if (waiter.of_all) missing = lacking.first;
      message = fmt::format(
          "nobody has put {}{}", list_first(std::move(names), lacking.count),
          missing.empty() ? "" : fmt::format(" (missing: {})", name_ranks(missing, lacking.count)));
      break;
    }
    case Waiter::Kind::ids:
      missing = {waiter.rank};
      message = fmt::format("{}, the first of group {}, has not published its NCCL ids", name_ranks(missing),
                            quoted(waiter.name));
      break;
    case Waiter::Kind::barrier:
      return break_barrier(waiter.name);
    case Waiter::Kind::watch:
      message = fmt::format("generation {} goes on", world_.generation);
      break;
    case Waiter::Kind::news:
      message = fmt::format("nothing new in generation {}", world_.generation);
      break;
    case Waiter::Kind::next:
      message =
          fmt::format("no generation after {} has a place for worker {} yet", waiter.after, waiter.worker);
      break;
  }
  refuse(remove(number), FailureKind::timeout, std::move(message), std::move(missing));
}

// One whose time has passed takes all others in the barrier along: they could meet only if it came back, and
// all who were there are to hear the same names.
void Table::break_barrier(std::string name) {
  const auto meeting = *meetings_.find(name);
  std::vector<std::uint32_t> missing;
  const auto look_for = [&](std::uint32_t rank) {
    if (missing.size() < max_missing && !meeting.here.contains(rank)) missing.push_back(rank);
  };
  for (const auto rank : meeting.ranks) look_for(rank);
  for (std::uint32_t rank = 0; meeting.ranks.empty() && rank < world_.size; ++rank) look_for(rank);
  const auto wanted = meeting.ranks.empty() ? world_.size : meeting.ranks.size();
  const auto names = name_ranks(missing, wanted - meeting.here.size());
  const auto refusal =
      failure(FailureKind::timeout, fmt::format("barrier {}: {} did not come", quoted(name), names), missing);
  for (const auto& [rank, number] : meeting.here) answer(remove(number), refusal);
}

bool Table::everybody_left() const { return formed_ && seats_.count(SeatState::left) == world_.size; }

std::optional<std::uint32_t> Table::rank_of(std::uint32_t connection) const {
  const auto at = seat_of_.find(connection);
  if (at == seat_of_.end()) return std::nullopt;
  return at->second;
}

// While one waits that has no rank yet, nobody can say which of the free ranks are still to come. Who came
// and gave up is named only if there is nobody else.
std::vector<std::uint32_t> Table::absent() const {
  std::vector<std::uint32_t> ranks;
  if (arrivals_ > 0) return ranks;
  const auto& empty = seats_.empty();
  const bool all_tired = tired_.size() >= empty.size();
  for (auto at = empty.begin(); at != empty.end() && ranks.size() < max_missing; ++at)
    if (all_tired || !tired_.contains(*at)) ranks.push_back(*at);
  return ranks;
}

std::string Table::not_joined() const {
  const auto all = seats_.count(SeatState::empty) - arrivals_;
  const auto others = tired_.size() < all ? tired_.size() : 0;
  const auto count = all - others;
  const auto names = name_ranks(absent(), arrivals_ > 0 ? 0 : count);
  const auto tired = std::min<std::size_t>(gave_up_, count);
  return fmt::format("{} of {} member{} {} not joined generation {}{}{}", count, world_.size,
                     world_.size == 1 ? "" : "s", count == 1 ? "has" : "have", world_.generation,
                     names.empty() ? "" : ": " + names,
                     others > 0   ? fmt::format(" ({} more came and gave up waiting)", others)
                     : tired == 0 ? ""
                                  : fmt::format(" ({} of them came and gave up waiting)", tired));
}

std::string Table::outstanding() const {
  if (!formed_) return not_joined();
  const auto here = seats_.taken();
  return fmt::format("{} of {} member{} {} not left: {}", here.size(), world_.size,
                     world_.size == 1 ? "" : "s", here.size() == 1 ? "has" : "have", name_ranks(here));
}

std::string Table::name_ranks(const std::vector<std::uint32_t>& ranks, std::size_t count) const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < ranks.size() && i < most_named; ++i) {
    const auto host = one_line(world_.members[ranks[i]].host, max_name);
    names.push_back(host.empty() ? fmt::format("rank {}", ranks[i])
                                 : fmt::format("rank {} on {}", ranks[i], host));
  }
  return list_first(std::move(names), std::max(count, ranks.size()));
}

WaiterNumber Table::add(Waiter waiter, std::uint32_t wait_ms, Instant now) {
  waiter.deadline = now + milliseconds(std::min(wait_ms, max_wait_ms));
  return insert(std::move(waiter));
}

WaiterNumber Table::insert(Waiter waiter) {
  const auto number = ++last_waiter_;
  deadlines_.emplace(waiter.deadline, number);
  waiters_of_[waiter.connection].insert(number);
  if (waiter.kind == Waiter::Kind::next) nexts_of_[waiter.worker].insert(number);
  if (waiter.kind == Waiter::Kind::join && waiter.by_arrival) ++arrivals_;
  waiters_.emplace(number, std::move(waiter));
  return number;
}

Table::Waiter Table::remove(WaiterNumber number) {
  auto node = waiters_.extract(number);
  auto waiter = std::move(node.mapped());
  deadlines_.erase({waiter.deadline, number});
  if (auto mine = waiters_of_.find(waiter.connection); mine != waiters_of_.end()) {
    mine->second.erase(number);
    if (mine->second.empty()) waiters_of_.erase(mine);
  }
  if (waiter.kind == Waiter::Kind::join && waiter.by_arrival) {
    --arrivals_;
  } else if (waiter.kind == Waiter::Kind::join) {
    seats_.put(waiter.rank, SeatState::empty, {});
    seat_of_.erase(waiter.connection);
  }
  if (waiter.kind == Waiter::Kind::barrier) meetings_.leave(waiter.name, waiter.rank);
  if (auto theirs = nexts_of_.find(waiter.worker);
      waiter.kind == Waiter::Kind::next && theirs != nexts_of_.end()) {
    theirs->second.erase(number);
    if (theirs->second.empty()) nexts_of_.erase(theirs);
  }
  store_.forget(number);
  return waiter;
}

}  // namespace trainrun::rendezvous
