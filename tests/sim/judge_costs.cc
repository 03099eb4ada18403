// What failures cost: each that is not a victim of another one takes a restart, and no more than the limit.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <variant>

#include "tests/sim/judge.h"

namespace trainrun::sim {

using namespace core;
using Phase = JobMachine::Phase;

namespace {

// The first restart does not wait, the next 1, 2, 4 ... 30 s.
Duration longest_wait(std::size_t crashes) {
  if (crashes < 2) return Duration::zero();
  return seconds(std::min<std::int64_t>(30, std::int64_t{1} << std::min<std::size_t>(crashes - 2, 5)));
}

}  // namespace

// Before the event is taken down: a member of the world ended badly by itself, or its host was lost.
void Judge::note_failure(const JobEvent& event) {
  failed_host_.reset();
  constexpr Duration proves_itself = seconds(60);
  constexpr int forgiven_in_a_row = 2;
  const auto* progress = std::get_if<WorldProgressed>(&event);
  const bool up = phase_ == Phase::running && world_ && told_ == world_->placement.generation;
  if (up && now_ - told_at_ >= proves_itself && proved_ != told_) {
    proved_ = told_;
    crashes_.clear();
    forgiven_ = 0;
    if (!ending_since_) done_before_ = false;
  } else if (up && progress != nullptr && progress->generation == told_ && !crashes_.empty() &&
             forgiven_ < forgiven_in_a_row) {
    crashes_.clear();
    ++forgiven_;
  }
  if (!world_ || (phase_ != Phase::forming && phase_ != Phase::running)) return;
  const auto ended = [this](WorkerId id, const ExitStatus& status) {
    const auto it = workers_.find(id);
    if (it == workers_.end() || !lives(it->second) || it->second.ended_by_order || status.success() ||
        status.cancelled())
      return;
    if (it->second.generation != world_->placement.generation) return;
    failed_.insert(id);
    if (!failed_since_) failed_since_ = now_;
  };
  if (const auto* exited = std::get_if<WorkerExited>(&event)) ended(exited->worker, exited->status);
  if (const auto* none = std::get_if<WorkerNotStarted>(&event)) ended(none->worker, none->status);
  if (const auto* lost = std::get_if<HostLost>(&event)) {
    const auto& it = host(lost->host);
    if (it.link == Link::ready && it.listed && !it.leaving && !it.removed) failed_host_ = lost->host;
  }
}

void Judge::check_costs(const JobMachine& machine) {
  const auto phase = machine.phase();
  const bool ended_the_world =
      (phase_ == Phase::forming || phase_ == Phase::running) &&
      (phase == Phase::draining || phase == Phase::cooling || machine.progress().generation > generation_);
  generation_ = machine.progress().generation;
  constexpr Duration waits_for_cause = seconds(2);
  if (phase == Phase::closing || phase == Phase::done) failed_since_.reset();  // it may go there in one step
  if (!ended_the_world && failed_since_ && now_ - *failed_since_ > waits_for_cause)
    fail("a failure is waited upon, and nothing follows");
  // The others stood still since the first of them asked; at the end of a program that is paid later.
  if (join_passed_ && world_ && met_ == world_->placement.generation) asked_since_ = waits_.asked_at();
  const int charged_now = charged_now_ = machine.restarts() - restarts_seen_;
  if (const int more = charged_now; more > 0) {
    if (!may_charge_) fail("a restart was charged for what is no failure");
    check_asked(machine);
    owed_ = false;
    restarts_.insert(restarts_.end(), static_cast<std::size_t>(more), now_);
    restarts_seen_ = machine.restarts();
    const auto& limit = scenario_.spec.elastic.limit;
    const auto within = std::count_if(restarts_.begin(), restarts_.end(),
                                      [&](Instant at) { return now_ - at <= limit.window; });
    if (within > limit.count) fail("more restarts than the budget allows");
    crashes_.insert(crashes_.end(), static_cast<std::size_t>(more), now_);
    std::erase_if(crashes_, [&](Instant at) { return now_ - at > limit.window; });
  }
  // Those that survivors wait for in Horovod's way: the world ends without them, and nobody pays.
  const bool without_newcomers = ended_the_world && told_of_newcomer_ && horovods_;
  if (charged_now > 0 || without_newcomers) {
    hung_ = false;
    if (charged_now > 0) {
      charged_ = true;
      if (!backs_off_) all_wait_until_.reset();
      drains_for_charge_ = !program_ends();
      crashes_at_ = crashes_.size();
    } else {
      for (const auto id : failed_)
        if (workers_.at(id).was_member) fail("a rank that had state fails, and nobody pays");
      without_newcomers_ = true;
    }
    if (!restart_since_) restart_since_ = asked_since_.value_or(now_);
    for (const auto& [id, worker] : workers_) {
      if (!world_ || worker.generation != world_->placement.generation) continue;
      if (lives(worker)) there_.insert(id);
      if (host(worker.seat.host).link == Link::ready) there_hosts_.insert(worker.seat.host);
    }
  } else if (ended_the_world) {
    for (const auto id : failed_)
      if (there_.erase(id) == 0)
        unpaid_ = fmt::format("worker {} came after the failure that was paid for", id.value);
    if (failed_host_ && there_hosts_.erase(*failed_host_) == 0)
      unpaid_ = fmt::format("host {} came after the failure that was paid for", failed_host_->value);
    // At the end of a program it is paid when the others turn out to need another world; but not by survivors
    // that die while their world ends for its newcomers, which costs nothing.
    const bool free = without_newcomers_ && unpaid_.empty();
    if (program_ends() && (hung_ || (!free && (!failed_.empty() || failed_host_)))) owed_ = true;
    if (owed_) unpaid_.clear();
  }
  if (ended_the_world) {
    failed_.clear();
    failed_since_.reset();
  }
  if (told_of_newcomer_) rests_now_ = false;  // its failure was charged, or told as the last
  check_backoff(phase);
  if (const auto wait = std::exchange(backs_off_, std::nullopt)) {
    if (!charged_) fail("a back-off after what was not charged");
    if (*wait > longest_wait(crashes_.size())) fail("a back-off is longer than the failures in a row allow");
  }
  const bool goes_on = phase == Phase::forming || phase == Phase::cooling;
  if (!unpaid_.empty() && goes_on) fail("a restart costs nothing, but " + unpaid_);
}

// Who fails again and again waits before the next try, but where its host is left out for it.
void Judge::check_backoff(Phase phase) {
  if (phase == Phase::draining) return;
  // Without the culprit nobody need wait, unless others failed as it did.
  const auto left_out = std::count_if(hosts_.begin(), hosts_.end(), [this](const KnownHost& it) {
    return it.left_out_at && now_ - *it.left_out_at <= HostLedger::window;
  });
  const bool owed = std::exchange(drains_for_charge_, false) && (!rests_now_ || left_out > 1) &&
                    longest_wait(crashes_.size()) > Duration::zero();
  if (owed && !backs_off_ && (phase == Phase::cooling || phase == Phase::forming) &&
      crashes_at_ == crashes_.size())
    fail("failures in a row are not waited for");
  if (std::exchange(rests_now_, false) && !charged_ && !without_newcomers_)
    fail("a host rests for what was not charged");
}

// A world has come up when all are started and, if some were there before, all have met.
void Judge::note_world(const JobMachine& machine) {
  if (!world_ || machine.phase() != Phase::running) return;
  const auto generation = world_->placement.generation;
  if (up_generation_ == generation || (kept_ && met_ != generation)) return;
  up_generation_ = generation;
  all_wait_until_.reset();
  there_.clear();
  there_hosts_.clear();
}

}  // namespace trainrun::sim
