#include "launcher/core/restart_policy.h"

#include <algorithm>

namespace trainrun::core {

bool RestartPolicy::may_belong(const Question& question) const {
  return since_ && (question.lost || !question.failed.empty());
}

RestartPolicy::Decision RestartPolicy::decide(const Question& question, Instant now) const {
  if (question.planned) return Decision::change;
  const bool belongs = may_belong(question) && (!question.lost || hosts_.contains(*question.lost)) &&
                       std::all_of(question.failed.begin(), question.failed.end(),
                                   [this](WorkerId worker) { return workers_.contains(worker); });
  if (belongs) return Decision::same_restart;
  if (question.free) return Decision::change;
  return budget_.left(now) ? Decision::restart : Decision::out_of_restarts;
}

void RestartPolicy::apply(Decision decision, const Question& question, Instant now) {
  if (decision == Decision::restart) {
    budget_.spend(now);
    waived_until_ = {};
  }
  if (question.planned || !may_belong(question)) return;
  if (question.lost && hosts_.erase(*question.lost) == 0) return;
  for (const auto worker : question.failed) workers_.erase(worker);
}

void RestartPolicy::begin(Instant since) {
  if (since_) return;
  since_ = since;
  workers_.clear();
  hosts_.clear();
}

Duration RestartPolicy::over(Instant now) {
  const auto took = since_ ? now - *since_ : Duration::zero();
  since_.reset();
  waived_until_ = {};
  return took;
}

}  // namespace trainrun::core
