// The life of a generation: begin, join, verdict; waiters and their deadlines. How members go:
// table_departures.cc. From one generation to the next: table_elastic.cc. The other verbs: table_verbs.cc.
#include "rendezvous/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/base/strings.h"
#include "rendezvous/protocol.h"

namespace trainrun::rendezvous {

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

void Table::handle(const Join& join, Waiter waiter, Instant now) {
  waiter.kind = Waiter::Kind::join;
  waiter.member.host = join.host;
  waiter.member.address = join.address;
  waiter.by_arrival = !join.rank.has_value();
  waiter.rank = join.rank.value_or(0);
  waiter.elastic = join.elastic;
  const bool twice =
      seat_of_.contains(waiter.connection) ||
      std::any_of(waiters_.begin(), waiters_.end(), [&](const auto& entry) {
        return entry.second.kind == Waiter::Kind::join && entry.second.connection == waiter.connection;
      });
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
  if (join.rank && seats_[*join.rank].state != Seat::State::empty)
    return refuse(waiter, FailureKind::exists, fmt::format("{} is taken already", name_ranks({*join.rank})));
  if (formed_ || in_state(Seat::State::empty).size() <= arrivals())
    return refuse(
        waiter, FailureKind::exists,
        fmt::format("all {} members of generation {} are here already", world_.size, world_.generation));

  if (gave_up_ > 0) --gave_up_;  // most likely one that tries again
  const auto connection = waiter.connection;
  if (join.rank && !described_) world_.members[*join.rank].host = join.host;
  const auto number = add(std::move(waiter), join.wait_ms, now);
  if (join.rank) {
    seats_[*join.rank] = {Seat::State::waiting, connection, number};
    seat_of_[connection] = *join.rank;
    events_.emplace_back(MemberJoined{{world_.generation}, {*join.rank}});
  }
  form_if_complete();
}

void Table::form_if_complete() {
  std::vector<WaiterNumber> joins;
  for (const auto& [number, waiter] : waiters_)
    if (waiter.kind == Waiter::Kind::join) joins.push_back(number);
  if (joins.size() < world_.size) return;

  formed_ = true;
  std::uint32_t next_free = 0;
  std::vector<Waiter> joined;
  for (const auto number : joins) {
    auto waiter = waiters_.at(number);
    if (waiter.by_arrival) {
      while (seats_[next_free].state != Seat::State::empty) ++next_free;
      waiter.rank = next_free;
      seats_[next_free] = {Seat::State::waiting, waiter.connection, number};
    }
    auto& member = world_.members[waiter.rank];
    if (!described_) member.host = waiter.member.host;
    if (!waiter.member.address.empty()) member.address = waiter.member.address;
    joined.push_back(std::move(waiter));
  }
  for (std::size_t i = 0; i < joins.size(); ++i) {
    remove(joins[i]);
    seats_[joined[i].rank] = {Seat::State::taken, joined[i].connection, 0};
    seat_of_[joined[i].connection] = joined[i].rank;
    elastic_ = elastic_ && joined[i].elastic;
    if (joined[i].by_arrival) events_.emplace_back(MemberJoined{{world_.generation}, {joined[i].rank}});
  }
  events_.emplace_back(Formed{{world_.generation}, elastic_});
  if (!described_) {  // members of one host, in the order of their ranks
    std::map<std::string, std::uint32_t> on_host;
    for (auto& member : world_.members) member.local_rank = on_host[member.host]++;
    for (auto& member : world_.members) member.local_size = on_host[member.host];
  }
  const auto shared = std::make_shared<const ReplyBody>(Joined{0, world_});
  for (const auto& waiter : joined)
    outbox_.push_back({waiter.connection, waiter.request, shared, waiter.rank});
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
  for (const auto number : all) {
    const auto waiter = remove(number);
    if (waiter.kind == Waiter::Kind::watch)
      answer(waiter, Over{*verdict_});
    else
      refuse(waiter, FailureKind::over, describe(*verdict_));
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
    const auto suspect = suspects_.front();
    if (seats_[suspect.rank].leaves_at_close)
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
      if (gave_up_ < world_.size) ++gave_up_;
      break;
    case Waiter::Kind::keys: {
      const auto& keys = store_.wanted(number);
      const auto lacking = store_.lacking(keys);
      std::vector<std::string> names;
      for (const auto index : lacking) names.push_back(quoted(keys.at(index)));
      if (waiter.of_all) missing = lacking;
      message = fmt::format("nobody has put {}{}", list_names(names),
                            missing.empty() ? "" : fmt::format(" (missing: {})", name_ranks(missing)));
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
  const auto meeting = meetings_.at(name);
  std::vector<std::uint32_t> missing;
  for (const auto rank : meeting.ranks)
    if (!meeting.here.contains(rank)) missing.push_back(rank);
  const auto message = fmt::format("barrier {}: {} did not come", quoted(name), name_ranks(missing));
  for (const auto& [rank, number] : meeting.here)
    refuse(remove(number), FailureKind::timeout, message, missing);
}

bool Table::everybody_left() const {
  return formed_ && std::all_of(seats_.begin(), seats_.end(),
                                [](const Seat& seat) { return seat.state == Seat::State::left; });
}

std::optional<std::uint32_t> Table::rank_of(std::uint32_t connection) const {
  const auto at = seat_of_.find(connection);
  if (at == seat_of_.end()) return std::nullopt;
  return at->second;
}

std::vector<std::uint32_t> Table::in_state(Seat::State state) const {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < world_.size; ++rank)
    if (seats_[rank].state == state) ranks.push_back(rank);
  return ranks;
}

std::size_t Table::arrivals() const {
  return static_cast<std::size_t>(std::count_if(waiters_.begin(), waiters_.end(), [](const auto& entry) {
    return entry.second.kind == Waiter::Kind::join && entry.second.by_arrival;
  }));
}

// While one waits that has no rank yet, nobody can say which of the free ranks are still to come.
std::vector<std::uint32_t> Table::absent() const {
  return arrivals() > 0 ? std::vector<std::uint32_t>{} : in_state(Seat::State::empty);
}

std::string Table::not_joined() const {
  const auto count = in_state(Seat::State::empty).size() - arrivals();
  const auto names = name_ranks(absent());
  const auto tired = std::min<std::size_t>(gave_up_, count);
  return fmt::format("{} of {} member{} {} not joined generation {}{}{}", count, world_.size,
                     world_.size == 1 ? "" : "s", count == 1 ? "has" : "have", world_.generation,
                     names.empty() ? "" : ": " + names,
                     tired == 0 ? "" : fmt::format(" ({} of them came and gave up waiting)", tired));
}

std::string Table::outstanding() const {
  if (!formed_) return not_joined();
  const auto here = in_state(Seat::State::taken);
  return fmt::format("{} of {} member{} {} not left: {}", here.size(), world_.size,
                     world_.size == 1 ? "" : "s", here.size() == 1 ? "has" : "have", name_ranks(here));
}

std::string Table::name_ranks(const std::vector<std::uint32_t>& ranks) const {
  std::vector<std::string> names;
  for (const auto rank : ranks) {
    const auto host = one_line(world_.members[rank].host, max_name);
    names.push_back(host.empty() ? fmt::format("rank {}", rank) : fmt::format("rank {} on {}", rank, host));
  }
  return list_names(names);
}

WaiterNumber Table::add(Waiter waiter, std::uint32_t wait_ms, Instant now) {
  waiter.deadline = now + milliseconds(std::min(wait_ms, max_wait_ms));
  return insert(std::move(waiter));
}

WaiterNumber Table::insert(Waiter waiter) {
  const auto number = ++last_waiter_;
  deadlines_.emplace(waiter.deadline, number);
  waiters_of_[waiter.connection].insert(number);
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
  if (waiter.kind == Waiter::Kind::join && !waiter.by_arrival) {
    seats_[waiter.rank] = Seat{};
    seat_of_.erase(waiter.connection);
  }
  if (waiter.kind == Waiter::Kind::barrier)
    if (const auto at = meetings_.find(waiter.name); at != meetings_.end()) {
      at->second.here.erase(waiter.rank);
      if (at->second.here.empty()) meetings_.erase(at);
    }
  store_.forget(number);
  return waiter;
}

}  // namespace trainrun::rendezvous
