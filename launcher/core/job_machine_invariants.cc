// What must hold after every step.
#include <algorithm>

#include "launcher/core/job_machine.h"

namespace trainrun::core {

// Where each deadline means something: it is disarmed when such a phase ends.
bool JobMachine::belongs(Deadline deadline, Phase phase) {
  const bool over = phase == Phase::closing || phase == Phase::done;
  switch (deadline) {
    case Deadline::start:
      return phase == Phase::gathering;
    case Deadline::world:
      return phase == Phase::gathering || phase == Phase::cooling;
    case Deadline::join:
    case Deadline::cause:
      return phase == Phase::forming || phase == Phase::running;
    case Deadline::inspect:
    case Deadline::steady:
      return phase == Phase::running;
    case Deadline::settle:
      return phase == Phase::running || phase == Phase::cooling;
    case Deadline::grace:
    case Deadline::kill:
    case Deadline::sweep:
      return phase == Phase::draining;
    case Deadline::notice:
      return phase == Phase::gathering || phase == Phase::draining || phase == Phase::closing;
    case Deadline::backoff:
      return phase == Phase::cooling;
    case Deadline::finish:
    case Deadline::newcomers:
      return phase == Phase::forming || phase == Phase::running || phase == Phase::cooling;
    case Deadline::job:
    case Deadline::hosts:
    case Deadline::leave:
      return !over;
    case Deadline::stop:
      return phase == Phase::closing;
  }
  return false;
}

std::string JobMachine::broken_invariant() const {
  for (const auto& [deadline, due] : armed_)
    if (!belongs(deadline, phase_)) return "a deadline is armed in a phase that it does not belong to";
  const auto armed = [this](std::initializer_list<Deadline> some) {
    return std::any_of(some.begin(), some.end(), [this](Deadline one) { return armed_.contains(one); });
  };
  if (phase_ == Phase::draining && !armed({Deadline::grace, Deadline::kill, Deadline::sweep}))
    return "draining without a deadline";
  if (phase_ == Phase::closing && !armed({Deadline::stop})) return "closing without a deadline";
  if (phase_ == Phase::cooling &&
      !armed({Deadline::backoff, Deadline::settle, Deadline::world, Deadline::leave, Deadline::finish}))
    return "cooling without a deadline";
  if (phase_ == Phase::gathering && began_ != Instant{} && !armed({Deadline::start, Deadline::world}))
    return "gathering without a deadline";
  for (std::size_t i = 0; i < world_.seats().size(); ++i)
    if (world_.seats()[i].rank.value != i) return "ranks have a hole";
  if (elastic() && world_.begun()) {
    const auto size = world_.size();
    if (size > std::max(spec_.elastic.max_np, spec_.world_size()) ||
        size < (spec_.elastic.min_np > 0 ? spec_.elastic.min_np : spec_.world_size()))
      return "a world above the maximum or below the minimum";
  }
  std::set<Rank> live;
  for (const auto& [id, worker] : world_.all()) {
    if (worker.state == WorkerState::finished) continue;
    if (worker.member && world_.begun() && !live.insert(worker.seat.rank).second)
      return "two live workers of one rank";
    const auto state = roster_.at(worker.seat.host).state;
    if (state != HostState::ready) return "a live worker on a host that is not there";
  }
  if ((phase_ == Phase::closing || phase_ == Phase::done) && !live.empty())
    return "a live worker after the end";
  if (auto broken = roster_.broken_invariant(); !broken.empty()) return broken;
  return world_.broken_invariant();
}

}  // namespace trainrun::core
