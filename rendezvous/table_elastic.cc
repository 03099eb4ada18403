// From one generation to the next: who has left the work of the last one and waits for its place, what the
// launcher announces, and signs of progress.
#include <fmt/format.h>

#include "rendezvous/protocol.h"
#include "rendezvous/table.h"

namespace trainrun::rendezvous {

Outbox Table::begin(World world, Instant) {
  if (world_.generation != 0 && !verdict_)
    finish({Verdict::Kind::ended, {}, {}, fmt::format("generation {} begins", world.generation), {}});
  std::vector<Waiter> survivors;
  while (!waiters_.empty()) survivors.push_back(remove(waiters_.begin()->first));  // finish() left no others
  auto fresh = Table(time_limit_);
  fresh.outbox_ = take();
  fresh.events_ = take_events();
  fresh.dismissed_ = std::move(dismissed_);
  *this = std::move(fresh);

  world_ = std::move(world);
  described_ = !world_.members.empty();
  if (!described_) world_.members.resize(world_.size);
  world_.size = static_cast<std::uint32_t>(world_.members.size());
  seats_ = Seats(world_.size);
  for (std::uint32_t rank = 0; rank < world_.size; ++rank) {
    world_.members[rank].rank = rank;
    if (world_.members[rank].worker != 0) rank_of_worker_[world_.members[rank].worker] = rank;
  }
  for (auto& waiter : survivors) {
    const auto place = rank_of_worker_.find(waiter.worker);
    if (place != rank_of_worker_.end() && waiter.after < world_.generation)
      answer(waiter, Placed{world_.generation, place->second});
    else
      insert(std::move(waiter));
  }
  return take();
}

void Table::handle(const Next& next, Waiter waiter, Instant now) {
  if (waiter.after > world_.generation)
    return refuse(
        waiter, FailureKind::stale,
        fmt::format("generation {} cannot be left, the current one is {}", waiter.after, world_.generation));
  if (next.worker == 0) return refuse(waiter, FailureKind::invalid, "a worker has a number above 0");
  if (world_.generation != 0 && !described_)
    return refuse(waiter, FailureKind::invalid,
                  "no launcher stands behind this server, so no other generation will begin");
  if (dismissed_.contains(next.worker))
    return refuse(waiter, FailureKind::removed, fmt::format("worker {} was dismissed", next.worker));
  const auto at = rank_of_worker_.find(next.worker);
  const bool member = at != rank_of_worker_.end();
  const bool leaves = waiter.after == world_.generation;
  if (member && !leaves) return answer(waiter, Placed{world_.generation, at->second});

  waiter.kind = Waiter::Kind::next;
  waiter.worker = next.worker;
  events_.emplace_back(MemberWaits{{waiter.after}, {next.worker}});
  add(std::move(waiter), next.wait_ms, now);
  if (!member || verdict_) return;
  const auto rank = at->second;
  if (formed_ && seats_.state(rank) == SeatState::taken) depart(rank);
  // Without it the generation can never be complete, and the others would wait in vain. It is nobody's fault:
  // who waits has as a rule what must not be lost, and who is awaited may just be loading.
  if (!formed_) {
    auto awaited = absent();
    std::erase(awaited, rank);
    break_up({Verdict::Kind::aborted,
              {},
              {},
              fmt::format("{} gave up before all members were here{}", name_ranks({rank}),
                          awaited.empty() ? "" : ", without " + name_ranks(awaited)),
              {}});
  }
}

Outbox Table::dismiss(WorkerId worker) {
  dismissed_.insert(worker.value);
  const auto theirs = nexts_of_.find(worker.value);
  if (theirs == nexts_of_.end()) return take();
  for (const auto number : std::set(theirs->second))
    refuse(remove(number), FailureKind::removed, fmt::format("worker {} was dismissed", worker.value));
  return take();
}

Notice Table::notice_for(std::uint32_t rank, std::uint32_t number) const {
  const auto& told = notices_[number - 1];
  return {number, told.change, told.stopping.contains(world_.members[rank].worker), told.text, told.left};
}

Outbox Table::announce(Generation generation, Change change, std::unordered_set<std::uint32_t> stopping,
                       std::string text) {
  if (generation.value == world_.generation && !verdict_)
    tell({change, std::move(stopping), std::move(text)});
  return take();
}

void Table::tell(Told told) {
  notices_.push_back(std::move(told));
  const auto number = static_cast<std::uint32_t>(notices_.size());
  std::vector<WaiterNumber> ears;
  for (const auto& [waiting, waiter] : waiters_)
    if (waiter.kind == Waiter::Kind::news && waiter.after < number) ears.push_back(waiting);
  for (const auto ear : ears) {
    const auto waiter = remove(ear);
    answer(waiter, notice_for(waiter.rank, number));
  }
}

void Table::handle(const News& news, Waiter waiter, Instant now) {
  if (news.rank >= world_.size)
    return refuse(waiter, FailureKind::invalid,
                  fmt::format("rank {} does not exist in a world of {}", news.rank, world_.size));
  if (news.seen < notices_.size()) return answer(waiter, notice_for(news.rank, news.seen + 1));
  waiter.kind = Waiter::Kind::news;
  waiter.rank = news.rank;
  waiter.after = news.seen;
  add(std::move(waiter), news.wait_ms, now);
}

void Table::handle(const Pulse& pulse, const Waiter& waiter, Instant now) {
  if (pulse.op.size() > max_operation)
    return refuse(waiter, FailureKind::limit,
                  fmt::format("the name of an operation has at most {} bytes", max_operation));
  if (pulse.rank >= world_.size || seats_.state(pulse.rank) != SeatState::taken)
    return refuse(waiter, FailureKind::invalid, fmt::format("rank {} has not joined", pulse.rank));
  answer(waiter, Done{});
  auto& seat = seats_.at(pulse.rank);
  seat.heard = now;
  // A member that is stuck repeats itself, and has not got on.
  auto operation = one_line(pulse.op, max_operation);
  if (seat.sequence == pulse.sequence && seat.group == pulse.group &&
      seat.in_operation == pulse.in_operation && seat.operation == operation)
    return;
  seat.operation = std::move(operation);
  seat.sequence = pulse.sequence;
  seat.group = pulse.group;
  seat.in_operation = pulse.in_operation;
  events_.emplace_back(MemberPulse{{world_.generation}, {world_.members[pulse.rank].worker}, pulse});
}

}  // namespace trainrun::rendezvous
