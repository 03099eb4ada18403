#include "launcher/core/verdict.h"

#include <algorithm>

namespace trainrun::core {
namespace {

constexpr Duration soon = seconds(5);

// The place in the tally of a member that is not the cause.
int Tally::*end_of(const Worker& worker, const Outcome& verdict) {
  const bool user = verdict.kind == Outcome::Kind::user_signal;
  if (worker.departure == Departure::left_behind) return &Tally::left;
  if (worker.departure == Departure::with_agent && user) return &Tally::terminated;
  if (worker.status.kind == ExitStatus::Kind::lost) return &Tally::lost;
  if (worker.status.kind == ExitStatus::Kind::not_started) return &Tally::not_started;
  // A batch system's signal that reached the rank as well is no failure of its own.
  if (worker.failure && !(user && worker.failure->status.signal() == verdict.signal)) return &Tally::failed;
  if (worker.departure == Departure::raised && verdict.kind == Outcome::Kind::worker_failed)
    return &Tally::raised;
  if (worker.killed()) return &Tally::killed;
  const bool asked = worker.departure == Departure::after_signal;
  return worker.status.success() && !asked ? &Tally::finished : &Tally::terminated;
}

}  // namespace

void count_others(const World& world, Outcome& verdict) {
  for (const auto& [id, worker] : world.all()) {
    if (!worker.member || (verdict.cause && verdict.cause->worker == id)) continue;
    const auto end = end_of(worker, verdict);
    ++(verdict.others.*end);
    if (end == &Tally::failed && verdict.cause) verdict.also_failed.push_back(*worker.failure);
    if (end == &Tally::finished && verdict.cause) verdict.finished.push_back(worker.seat.rank.value);
  }
  std::sort(verdict.finished.begin(), verdict.finished.end());
  std::sort(verdict.also_failed.begin(), verdict.also_failed.end(),
            [](const Failure& a, const Failure& b) { return a.rank < b.rank; });
}

bool says_more(const WorldBroken& broken, Instant at, const Outcome& verdict) {
  if (verdict.kind != Outcome::Kind::worker_failed || !verdict.cause) return false;
  if (verdict.cause->at - verdict.cause->error > at) return true;  // it was heard before anybody failed
  return !broken.culprits.empty() &&
         std::ranges::find(broken.culprits, verdict.cause->rank) == broken.culprits.end();
}

bool ended_for_lack_of_exchange(const Failure& failure, Instant exchange_lost) {
  using Kind = ExitStatus::Kind;
  // Nobody has heard since whether it called MPI_Finalize.
  if (failure.status.kind == Kind::deserted) return true;
  return (failure.status.kind == Kind::exited || failure.status.kind == Kind::aborted) &&
         failure.at - failure.error <= exchange_lost + soon;
}

}  // namespace trainrun::core
