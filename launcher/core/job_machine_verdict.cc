// The verdict: whose failure it was, and what became of the others.
#include <algorithm>

#include "launcher/core/job_machine.h"
#include "launcher/core/verdict.h"

namespace trainrun::core {

std::vector<Failure> JobMachine::failures() const {
  std::vector<Failure> all;
  for (const auto id : world_.failed()) all.push_back(*world_.at(id).failure);
  return all;
}

std::optional<Rank> JobMachine::culprit() const {
  const auto all = failures();
  if (all.empty()) return std::nullopt;
  return all[first_cause(all)].rank;
}

void JobMachine::settle_verdict() {
  auto all = failures();
  const bool victims =
      std::all_of(all.begin(), all.end(), [](const Failure& it) { return it.lost_peer || it.after_signal; });
  if (victims && last_cause_ && restarts_.since())
    all.push_back(*last_cause_);  // whom they lost is dismissed already
  if (somebody_left_well_) all.insert(all.end(), failed_before_.begin(), failed_before_.end());
  if (verdict_.kind == Outcome::Kind::worker_failed && !all.empty())
    verdict_.cause = all[first_cause(all)];
  else if (verdict_.kind == Outcome::Kind::worker_failed)
    verdict_.cause = last_cause_;
  if (verdict_.kind == Outcome::Kind::worker_failed) verdict_.why.reset();
  if (broken_ && says_more(*broken_, broken_at_, verdict_))
    verdict_.why = cause::WorldBroken{broken_->reason, broken_->culprits};
  blame_lost_exchange();
  // A rank's own time, which another host's clock may put before all.
  const auto when = verdict_.cause              ? verdict_.cause->at
                    : phase_ == Phase::draining ? ending_.drains_since()
                                                : now_;
  if (verdict_.kind == Outcome::Kind::host_lost) verdict_.ranks = world_.ranks_on(verdict_.host);
  verdict_.after = std::max(when - began_, Duration::zero());
  if (verdict_.kind == Outcome::Kind::user_signal) tell_time_of_end();
  count_lost_time();  // of a restart that did not come up
  count_others(world_, verdict_);
}

void JobMachine::blame_lost_exchange() {
  if (!exchange_lost_ || exchange_lost_->generation != world_.generation() || !verdict_.cause) return;
  if (!ended_for_lack_of_exchange(*verdict_.cause, exchange_lost_->at)) return;
  verdict_.kind = Outcome::Kind::exchange_lost;
  verdict_.why = cause::ExchangeLost{exchange_lost_->reason};
  verdict_.cause.reset();
}

// What the user asked for is over now, not when it was asked for.
void JobMachine::tell_time_of_end() {
  verdict_.after = now_ - began_;
  verdict_.took = now_ - ending_.requested_at();
}

}  // namespace trainrun::core
