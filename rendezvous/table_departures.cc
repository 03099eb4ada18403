// How members go: they leave, are lost, or break the world up.
#include <fmt/format.h>

#include <algorithm>

#include "launcher/base/strings.h"
#include "rendezvous/protocol.h"
#include "rendezvous/table.h"

namespace trainrun::rendezvous {

void Table::handle(const Leave& leave, const Waiter& waiter, Instant) {
  const auto rank = rank_of(waiter.connection);
  if (!rank || seats_.state(*rank) != SeatState::taken)
    return refuse(waiter, FailureKind::invalid, "this connection has not joined, so it cannot leave");
  answer(waiter, Done{});
  seats_.at(*rank).leaves_at_close = leave.at_close;
  if (!leave.at_close) depart(*rank);
}

void Table::depart(std::uint32_t rank) {
  if (auto& seat = seats_.at(rank); std::exchange(seat.in_operation, false))
    events_.emplace_back(MemberPulse{{world_.generation},
                                     {world_.members[rank].worker},
                                     {rank, "leave", seat.sequence, false, seat.group, 0}});
  seats_.leave(rank);
  seat_of_.erase(seats_.at(rank).connection);
  while (!suspects_.empty() && seats_.state(suspects_.front().rank) == SeatState::left) suspects_.pop_front();
  // A barrier that needs the member can never be complete.
  for (const auto number : meetings_.waiting_for(rank)) {
    const auto other = remove(number);
    refuse(other, FailureKind::left,
           fmt::format("barrier {} cannot be complete: {} has left", quoted(other.name), name_ranks({rank})),
           {rank});
  }
  if (everybody_left()) finish({Verdict::Kind::ended, {}, {}, "all members have left", {}});
}

// Once is enough: after the first, nothing that all ranks take part in can be complete.
void Table::leave_unmet(std::uint32_t rank) {
  depart(rank);
  if (!verdict_ && !std::exchange(told_of_leaver_, true))
    tell({Change::none, {}, fmt::format("{} has left the world", name_ranks({rank})), rank});
}

// Whether the member waits in the same operation as the reporter: its own time has not passed, so it has no
// trouble to tell of, but it says each second where it is. One that stands still says nothing.
bool Table::takes_part(std::uint32_t rank, std::uint32_t reporter, Instant now) const {
  const auto& one = seats_.at(rank);
  const auto& mine = seats_.at(reporter);
  return waits(rank, now) && mine.in_operation && one.group == mine.group && one.sequence >= mine.sequence;
}

bool Table::waits(std::uint32_t rank, Instant now) const {
  const auto& seat = seats_.at(rank);
  return seat.in_operation && now - seat.heard < pulse_counts_for;
}

bool Table::is_silent(std::uint32_t rank, Instant now) const {
  const auto& seat = seats_.at(rank);
  return seats_.state(rank) == SeatState::taken && now - seat.heard > silent_after;
}

std::vector<std::uint32_t> Table::silent(Instant now) const {
  auto ranks = seats_.taken();
  std::erase_if(ranks, [&](auto rank) { return !is_silent(rank, now); });
  return ranks;
}

std::string Table::places(const std::vector<std::uint32_t>& ranks, const Seat* mine) const {
  constexpr std::size_t most = 8;
  std::vector<std::pair<std::string, std::vector<std::uint32_t>>> in;
  std::size_t others = 0;
  for (const auto rank : ranks) {
    const auto& seat = seats_.at(rank);
    const auto number = seat.sequence == 0 ? "" : fmt::format(" number {}", seat.sequence);
    const bool looks_the_same =
        mine != nullptr && seat.group != mine->group && seat.operation == mine->operation;
    auto where = seat.operation + number + (looks_the_same ? " of another group" : "");
    const auto same = std::ranges::find(in, where, [](const auto& it) { return it.first; });
    if (same != in.end())
      same->second.push_back(rank);
    else if (in.size() < most)
      in.push_back({std::move(where), {rank}});
    else
      ++others;
  }
  std::string words;
  for (const auto& [operation, who] : in)
    words += fmt::format("{}{} {} in {}", words.empty() ? "" : "; ", name_ranks(who),
                         who.size() == 1 ? "waits" : "wait", operation);
  if (others > 0) words += fmt::format("; {} more {} elsewhere", others, others == 1 ? "waits" : "wait");
  return words;
}

void Table::handle(const Abort& abort, const Waiter& waiter, Instant now) {
  if (abort.why.size() > max_text)
    return refuse(
        waiter, FailureKind::limit,
        fmt::format("the reason of an abort has at most {} bytes, not {}", max_text, abort.why.size()));
  if (!acceptable_ranks(abort.missing))
    return refuse(waiter, FailureKind::invalid, "an abort names missing ranks of the world, each once");
  const auto rank = rank_of(waiter.connection);
  const auto why = one_line(abort.why, max_text);
  answer(waiter, Done{});
  if (abort.missing.empty()) {
    // As for a connection of another library that broke, where the reporter is no more to blame than others.
    const auto left = seats_.first_left();
    const auto after = left ? fmt::format(" ({} had left the world)", name_ranks({*left})) : std::string();
    return break_up({Verdict::Kind::aborted,
                     rank,
                     rank ? world_.members[*rank].host : "",
                     one_line(why + after, max_text),
                     {}});
  }
  auto missing = abort.missing;
  if (rank) std::erase_if(missing, [&](auto other) { return takes_part(other, *rank, now); });
  // Those that wait elsewhere wait for others themselves: whoever does not is to blame.
  auto waiting = missing;
  std::erase_if(waiting, [&](auto other) { return !waits(other, now); });
  std::erase_if(missing, [&](auto other) { return waits(other, now); });
  const auto* const mine = rank ? &seats_.at(*rank) : nullptr;
  auto how = why;
  if (!missing.empty()) {
    how += fmt::format(": {} did not take part", name_ranks(missing));
    auto silent = missing;
    std::erase_if(silent, [&](auto other) { return !is_silent(other, now); });
    const auto gone = silent.size() == 1 ? "has gone silent (is its process stopped?)"
                                         : "have gone silent (are their processes stopped?)";
    if (silent.size() == missing.size())
      how += fmt::format(" and {}", gone);
    else if (!silent.empty())
      how += fmt::format("; {} {}", name_ranks(silent), gone);
    if (!waiting.empty()) how += "; " + places(waiting, mine);
  } else if (waiting.empty()) {
    how += ", though all ranks took part";
  } else {
    // Or at the end of a chain of ranks that wait for each other; if all wait, nobody is to blame more than
    // another.
    waiting.clear();
    for (const auto other : seats_.taken())
      if (waits(other, now) || other == rank)
        waiting.push_back(other);
      else if (missing.size() < max_missing)
        missing.push_back(other);
    how += fmt::format(": {}{}", places(waiting, mine),
                       missing.empty() ? ""
                                       : fmt::format("; {} {} in no operation", name_ranks(missing),
                                                     missing.size() == 1 ? "is" : "are"));
  }
  std::optional<std::uint32_t> culprit;
  if (missing.size() == 1) culprit = missing.front();
  break_up({Verdict::Kind::stalled, culprit, culprit ? world_.members[*culprit].host : "",
            one_line(how, max_text), std::move(missing)});
}

Outbox Table::closed(std::uint32_t connection, Instant now, std::string how) {
  const auto rank = rank_of(connection);
  if (const auto mine = waiters_of_.find(connection); mine != waiters_of_.end())
    for (const auto number : std::vector<WaiterNumber>(mine->second.begin(), mine->second.end()))
      remove(number);
  seat_of_.erase(connection);
  if (!rank || verdict_) return take();
  if (!described_ && seats_.at(*rank).leaves_at_close) {
    leave_unmet(*rank);
  } else if (!described_) {
    break_up({Verdict::Kind::lost, *rank, world_.members[*rank].host, std::move(how), {}});
  } else {
    suspects_.push_back({now + time_limit_, *rank, std::move(how)});
  }
  return take();
}

Outbox Table::lost(Generation generation, Rank rank, std::string host, std::string how) {
  if (generation.value == world_.generation && !verdict_ && rank.value < world_.size)
    finish({Verdict::Kind::lost, rank.value, std::move(host), std::move(how), {}});
  return take();
}

Outbox Table::failed(Generation generation, Rank rank, std::string host, std::string how) {
  const bool has_left = generation.value == world_.generation && rank.value < world_.size &&
                        seats_.state(rank.value) == SeatState::left;
  return has_left ? take() : lost(generation, rank, std::move(host), std::move(how));
}

Outbox Table::ended_well(Generation generation, Rank rank) {
  if (generation.value != world_.generation || verdict_ || rank.value >= world_.size) return take();
  const auto state = seats_.state(rank.value);
  if (state == SeatState::taken) seats_.at(rank.value).leaves_at_close = true;
  if (state == SeatState::empty && described_ && !never_comes_) never_comes_ = rank.value;
  end_if_it_cannot_form();
  return take();
}

// Elastic members get another world.
void Table::end_if_it_cannot_form() {
  if (formed_ || !never_comes_ || !some_want_this_world_) return;
  const auto rank = *never_comes_;
  finish(
      {Verdict::Kind::lost, rank, world_.members[rank].host, "it exited with code 0 before it joined", {}});
}

}  // namespace trainrun::rendezvous
