// A generation that begins, and the job's end.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "launcher/core/replan.h"
#include "tests/sim/judge.h"

namespace trainrun::sim {

using namespace core;

namespace {

// By then a job that could go on has found the hosts that are there: retries come every 30 s, a dial takes as
// long as the start may.
constexpr Duration finds_hosts = seconds(60);

}  // namespace

void Judge::begins(const BeginWorld& begin) {
  const auto& seats = begin.placement.seats;
  const auto generation = begin.placement.generation;
  if (generation != reserved_ || generation != delivered_)
    fail("a generation begins without a port of its own");
  if (world_ && generation <= world_->placement.generation) fail("generations do not grow");
  if (seats.size() != begin.workers.size() || seats.empty()) return fail("seats and workers do not match");
  kept_ = std::any_of(begin.workers.begin(), begin.workers.end(),
                      [this](WorkerId id) { return workers_.contains(id) && !workers_.at(id).newcomer; });
  kept_state_ =
      static_cast<int>(std::count_if(begin.workers.begin(), begin.workers.end(), [this](WorkerId id) {
        return workers_.contains(id) && workers_.at(id).was_member;
      }));
  check_places(begin);
  check_in_place(begin);
  check_size(begin);
  check_nobody_waits(begin);
  check_nobody_is_left_out(begin);
  check_who_goes_on(begin);
  check_who_was_freed();
  check_those_who_went_on();
  for (const auto& [id, worker] : workers_)
    if (!kept_ && worker.newcomer && lives(worker))
      fail(fmt::format("newcomer {} lives on beside a world that starts anew", id.value));
  for (std::size_t rank = 0; rank < seats.size(); ++rank) {
    auto& worker = workers_[begin.workers[rank]];
    worker.seat = seats[rank];
    worker.generation = generation;
    worker.newcomer = false;
  }
  if (!kept_) newcomers_may_come();
  world_ = begin;
  began_ = true;
  joined_ = survivor_joined_ = false;
  asked_since_.reset();
  asked_all_ = false;
  dismissed_unfinished_.reset();
  charged_ = without_newcomers_ = false;
}

void Judge::starts(const StartWorker& start) {
  if (start.generation.value == 0) {
    if (to_start_.erase(start.worker) == 0 || !workers_.at(start.worker).newcomer)
      fail(fmt::format("worker {} starts as a newcomer, and was not planned for", start.worker.value));
    else if (workers_.at(start.worker).seat.rank != start.rank)
      fail(fmt::format("newcomer {} is told a rank that is another's", start.worker.value));
    return;
  }
  if (!world_ || start.generation != world_->placement.generation)
    return fail(fmt::format("worker {} is told generation {}, which did not begin", start.worker.value,
                            start.generation.value));
  if (start.rank.value >= world_->workers.size() || world_->workers[start.rank.value] != start.worker)
    return fail(fmt::format("worker {} is told a rank that is another's", start.worker.value));
  if (to_start_.erase(start.worker) == 0)
    return fail(fmt::format("worker {} is started twice", start.worker.value));
  need_link(world_->placement.seats[start.rank.value].host, "a start");
}

void Judge::spawned(int machine, Generation generation) {
  auto& begun = begun_on_[machine];
  if (generation < begun)
    fail(fmt::format("a worker of generation {} starts where generation {} began", generation.value,
                     begun.value));
  begun = std::max(begun, generation);
}

// The smallest world, by those that are there and may be used.
bool Judge::listed_hosts_hold() {
  if (slot_stopped_) return false;  // it may be one that counts
  constexpr int tolerated = 2;      // of ranks that fail there: with more it may rest
  int slots = 0;
  for (const auto& known : hosts_)
    if (known.listed && !known.removed && !known.leaving && known.link == Link::ready &&
        (known.good || (known.ranks_failed <= tolerated && now_ >= known.rests_until)))
      slots += slots_of(scenario_.spec, known.host);
  // Where one lives that has no place any more nobody else can sit.
  for (const auto& [id, worker] : workers_)
    if (worker.dismissed && lives(worker) && host(worker.seat.host).listed) --slots;
  return slots >= scenario_.least();
}

void Judge::check_places(const BeginWorld& begin) {
  std::set<WorkerId> workers;
  std::set<std::pair<HostIndex, std::uint32_t>> slots;
  std::map<HostIndex, int> used, new_ones;
  for (std::size_t rank = 0; rank < begin.workers.size(); ++rank) {
    const auto& seat = begin.placement.seats[rank];
    const auto id = begin.workers[rank];
    if (seat.rank.value != rank) fail("ranks have a hole");
    if (!workers.insert(id).second) fail(fmt::format("worker {} has two ranks", id.value));
    if (!slots.insert({seat.host, seat.slot}).second)
      fail(fmt::format("slot {} of host {} is given twice", seat.slot, seat.host.value));
    need_link(seat.host, "a seat");
    ++used[seat.host];
    if (workers_.contains(id)) continue;
    to_start_.insert(id);
    ++new_ones[seat.host];
    const auto& known = host(seat.host);
    const bool serves = known.listed || (known.kept && !listed_hosts_hold());
    if (!serves || known.removed || known.leaving)
      fail(fmt::format("host {} gets a new worker, and is not to be used", seat.host.value));
  }
  for (const auto& [index, some] : new_ones)
    if (const auto has = slots_of(scenario_.spec, host(index).host);
        !scenario_.spec.oversubscribe && used[index] > has)
      fail(fmt::format("host {} has {} slots and gets {} ranks", index.value, has, used[index]));
}

// Survivors come first, in their order, those that have state before others, and where they are.
void Judge::check_in_place(const BeginWorld& begin) {
  std::optional<std::pair<bool, Rank>> before;
  bool newcomer = false;
  for (std::size_t rank = 0; rank < begin.workers.size(); ++rank) {
    const auto known = workers_.find(begin.workers[rank]);
    if (known == workers_.end()) {
      newcomer = true;
      continue;
    }
    const auto& worker = known->second;
    const auto& seat = begin.placement.seats[rank];
    if (!lives(worker)) fail(fmt::format("worker {} gets a rank, and is dead", begin.workers[rank].value));
    if (worker.ended_by_order)
      fail(fmt::format("worker {} gets a rank, and was ended", begin.workers[rank].value));
    if (newcomer && !worker.newcomer && !horovods_) fail("a survivor has a higher rank than a newcomer");
    newcomer = newcomer || worker.newcomer;
    if (seat.host != worker.seat.host || seat.slot != worker.seat.slot)
      fail(fmt::format("worker {} is moved, and cannot move", begin.workers[rank].value));
    if (worker.newcomer) continue;
    const std::pair order{!worker.was_member, worker.seat.rank};
    if (before && order < *before && !horovods_) fail("survivors do not keep their order");
    before = order;
  }
  if (horovods_ && kept_ && !plan_is_old_) check_neighbours(begin);
  // Somebody with state must not be passed over by a world that has none, listed or not: the list may be
  // wrong.
  const bool first_was_member = before && workers_.at(begin.workers[0]).was_member;
  const auto state_elsewhere = std::find_if(workers_.begin(), workers_.end(), [&](const auto& it) {
    const auto& on = host(it.second.seat.host);
    return it.second.was_member && lives(it.second) && !it.second.ended_by_order && !on.leaving &&
           !on.removed;
  });
  if (!first_was_member && state_elsewhere != workers_.end())
    fail(fmt::format("rank 0 has no state, and worker {} has", state_elsewhere->first.value));
}

// Horovod counts on it that ranks of one host follow each other.
void Judge::check_neighbours(const BeginWorld& begin) {
  std::set<HostIndex> seen;
  std::optional<HostIndex> last;
  for (const auto& seat : begin.placement.seats) {
    if (last == seat.host) continue;
    last = seat.host;
    if (!seen.insert(seat.host).second)
      fail(fmt::format("ranks of host {} do not follow each other", seat.host.value));
  }
}

void Judge::check_size(const BeginWorld& begin) {
  const auto size = static_cast<int>(begin.workers.size());
  if (size > scenario_.most()) fail(fmt::format("a world of {}, above the maximum", size));
  if (size < scenario_.least()) fail(fmt::format("a world of {}, below the minimum", size));
}

// ---- the end

void Judge::ends(const Outcome& outcome, Instant now) {
  outcome_ = outcome;
  check_report(outcome);
  using Kind = Outcome::Kind;
  for (std::size_t i = 0; i < hosts_.size(); ++i)
    if (hosts_[i].link != Link::none) fail(fmt::format("the end comes while host {} is there", i));
  const auto code = [&](int expected) {
    if (outcome.exit_code != expected)
      fail(fmt::format("{} exits with {} instead of {}", to_string(outcome.kind), outcome.exit_code,
                       expected));
  };
  const bool may_fail = !scenario_.spec.elastic.enabled() || outcome.out_of_restarts || program_ends();
  switch (outcome.kind) {
    case Kind::success:
      code(0);
      if (!world_) return fail("success without a world");
      if (dismissed_unfinished_)
        fail(fmt::format("success, but worker {} was dismissed before it had finished",
                         dismissed_unfinished_->value));
      for (const auto id : world_->workers) {
        const auto& worker = workers_.at(id);
        if (!(worker.status && worker.status->success()))
          fail(fmt::format("success, but worker {} did not exit with 0", id.value));
      }
      if (died_unfinished_)
        fail(fmt::format("success, but worker {} had not finished, and no world met without it",
                         died_unfinished_->value));
      return;
    case Kind::worker_failed:
      if (!may_fail) fail("the job ends with a failed worker, and could go on");
      if (!outcome.cause) return fail("no cause is named");
      if (const auto it = workers_.find(outcome.cause->worker);
          it == workers_.end() || it->second.status != outcome.cause->status)
        fail("the cause that is named did not happen");
      check_cause(outcome);
      return code(outcome.cause->status.exit_code());
    case Kind::host_lost:
      if (!may_fail) fail("the job ends with a lost host, and could go on");
      return code(69);
    case Kind::hosts_failed:
      if (world_) fail("hosts failed after a world had begun");
      return outcome.exit_code == 124 ? void() : code(69);
    case Kind::port_refused:
      if (!may_fail) fail("the job ends for want of a port, and could go on");
      return code(75);
    case Kind::mpi_mixed:
      return fail("no program here is one of MPI");
    case Kind::user_signal:
      if (signals_ == 0) fail("nobody sent a signal");
      return code(128 + user_signal_);
    case Kind::output_closed:
      if (!output_closed_) fail("the output was not closed");
      return code(141);
    case Kind::timed_out:
      if (!job_timed_out_) fail("the time limit had not passed");
      return code(124);
    case Kind::unfinished:
      if (!program_ends()) fail("the job ends as unfinished, and nobody has finished");
      return code(124);
    case Kind::exchange_lost:
      return fail("no exchange was lost");
    case Kind::hung:
      if (!may_fail) fail("the job ends as hung, and could go on");
      return code(124);
    case Kind::no_hosts:
      if (enough_since_ && job_ends_.value_or(now) - *enough_since_ >
                               scenario_.spec.start_timeout + finds_hosts + scenario_.spec.host_timeout)
        fail("the job gives up for want of hosts, and they were there for long");
      return code(69);
  }
}

bool Judge::failed_by_itself(WorkerId id) const {
  const auto& worker = workers_.at(id);
  return world_ && worker.generation == world_->placement.generation &&
         worker.state == Known::State::exited && worker.status && !worker.status->success() &&
         worker.status->kind != ExitStatus::Kind::not_started && !worker.asked && !worker.ended_by_order;
}

// A victim is not blamed when one that failed by itself is known; whoever was not asked to end did not end by
// our signal.
void Judge::check_cause(const Outcome& outcome) {
  const auto blamed = outcome.cause->worker;
  if (!world_ || !workers_.contains(blamed) || workers_.at(blamed).generation != world_->placement.generation)
    return;
  constexpr Duration noticed_late = milliseconds(150);
  const auto& cause = workers_.at(blamed);
  const bool silent = silent_victims_.contains(blamed);
  int failed = 0;
  for (const auto& [id, worker] : workers_) {
    if (id == blamed || !failed_by_itself(id)) continue;
    ++failed;
    if (worker.lost_peer || silent_victims_.contains(id)) continue;
    const bool killed = *worker.status == ExitStatus::killed(SIGKILL, false) ||
                        *worker.status == ExitStatus::killed(SIGSEGV, true);
    if (cause.lost_peer || (silent && killed && worker.ended_at <= cause.ended_at + noticed_late))
      fail(fmt::format("worker {} is blamed, a victim, and worker {} failed by itself", blamed.value,
                       id.value));
  }
  // Of an elastic job some may have failed in the world before.
  if (outcome.others.failed < failed && !scenario_.spec.elastic.enabled())
    fail(fmt::format("{} workers failed by themselves besides the cause, and {} are told of", failed,
                     outcome.others.failed));
}

void Judge::over(const JobMachine& machine, Instant now, Instant calm_since, bool timed_out) {
  if (!timed_out && outcome_) return;
  fail(fmt::format("no end {} after the last fault: {}, generation {}", format_duration(now - calm_since),
                   to_string(machine.phase()), machine.progress().generation));
}

}  // namespace trainrun::sim
