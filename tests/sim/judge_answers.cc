// What must follow from an event in the same step: a failure ends its world, a deadline has its consequence,
// and who can go on is left alone.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <variant>

#include "tests/sim/judge.h"

namespace trainrun::sim {

using namespace core;
using Phase = JobMachine::Phase;

namespace {

constexpr Duration after_kill = seconds(5), longest_in_a_hurry = seconds(5);

template <class... Parts>
struct Cases : Parts... {
  using Parts::operator()...;
};

}  // namespace

// A failure here, of one that nobody had asked to end.
bool Judge::fails_by_itself(WorkerId id, const ExitStatus& status, bool signalled) const {
  const auto it = workers_.find(id);
  return it != workers_.end() && is_member(it->second) && lives(it->second) && !it->second.ended_by_order &&
         !status.success() && !status.cancelled() && !signalled;
}

int Judge::live_members(std::optional<HostIndex> on, std::optional<WorkerId> but) const {
  return static_cast<int>(std::count_if(workers_.begin(), workers_.end(), [&](const auto& it) {
    return is_member(it.second) && lives(it.second) && it.first != but && (!on || it.second.seat.host == *on);
  }));
}

// Before the event is taken down.
void Judge::note_question(const JobEvent& event) {
  step_ = {};
  const bool runs = phase_ == Phase::forming || phase_ == Phase::running;
  step_.stands = world_ && !over_ && runs;
  step_.in_place =
      step_.stands && scenario_.in_place() && elastic_world_ && met_ == world_->placement.generation;
  const bool waits_for_cause = waits_.armed(Deadline::cause);
  std::visit(
      Cases{
          [&](const WorkerExited& it) { ask_of_exit(it, waits_for_cause); },
          [&](const WorkerNotStarted& it) {
            if (step_.stands && fails_by_itself(it.worker, it.status, false)) step_.ends_world = true;
            step_.spares_others = step_.ends_world;
          },
          [&](const core::HostLost& it) {
            if (!step_.stands) return ask_hosts(it.host);
            step_.ends_world = live_members(it.host, {}) > 0;
            step_.spares_others = step_.ends_world;
            ask_hosts(it.host);
          },
          [&](const HostLeaving& it) {
            if (!host(it.host).leaving && !host(it.host).removed) ask_hosts(it.host);
          },
          [&](const WorldBroken& it) {
            if (!step_.stands || it.generation != world_->placement.generation) return;
            step_.ends_world = step_.in_place;
            step_.keeps_world = !scenario_.in_place();
          },
          [&](const WorldSilent&) {
            step_.nobody_came = waits_.armed(Deadline::join) && !survivor_joined_ && world_ &&
                                met_ != world_->placement.generation;
            step_.inspects =
                phase_ == Phase::running && !waits_.armed(Deadline::inspect) && !step_.nobody_came;
          },
          [&](const RemoveHost&) { step_.by_user = true; }, [&](const WorldAlive&) { step_.alive = true; },
          [&](const RestartWorld&) { step_.ends_world = may_restart(); },
          [&](const RestartWorker& it) { ask_restart(it.rank); },
          [&](const StopWorker& it) { ask_restart(it.rank); },
          [&](const UserSignal&) { step_.ends_job = phase_ != Phase::done; },
          [&](const OutputClosed&) { step_.ends_job = phase_ != Phase::gathering && phase_ != Phase::done; },
          [&](const DeadlinePassed& it) { ask_of_deadline(it.deadline); }, [](const auto&) {}},
      event);
}

void Judge::ask_hosts(HostIndex) { step_.asks = goes_on(); }

bool Judge::may_restart() const {
  return step_.stands && phase_ == Phase::running && scenario_.spec.elastic.enabled() && !program_ends();
}

void Judge::ask_restart(Rank rank) {
  if (!may_restart() || rank.value >= world_->workers.size()) return;
  const auto id = world_->workers[rank.value];
  const auto& worker = workers_.at(id);
  if (!is_member(worker) || worker.state != Known::State::started) return;
  step_.ends_world = true;
  if (step_.in_place && !worker.ended_by_order && live_members({}, id) > 0) step_.only = id;
}

// Who says that it lost a peer is not believed to be the cause as long as that may follow.
void Judge::ask_of_exit(const WorkerExited& exited, bool waits_for_cause) {
  const auto it = workers_.find(exited.worker);
  if (!step_.stands || it == workers_.end() || it->second.state != Known::State::started) return;
  if (!fails_by_itself(exited.worker, exited.status, exited.signalled.bits != 0)) return;
  const bool others = live_members({}, exited.worker) > 0;
  const bool never_in_place = !scenario_.in_place();
  if (!exited.lost_peer || step_.in_place || !others)
    step_.ends_world = true;
  else if (never_in_place && !waits_for_cause)
    step_.waits_for_cause = true;
  step_.spares_others = step_.ends_world;
}

void Judge::ask_of_deadline(Deadline deadline) {
  switch (deadline) {
    case Deadline::job:
    case Deadline::finish:
    case Deadline::world:
      step_.ends_job = phase_ != Phase::done;
      return;
    case Deadline::start:
      step_.ends_job = !scenario_.spec.elastic.enabled();
      return;
    case Deadline::cause:
    case Deadline::inspect:
      step_.ends_world = step_.stands;
      return;
    case Deadline::join:
      step_.joins = step_.stands && !scenario_.spec.elastic.hang_timeout;
      step_.ends_world = step_.joins && all_loaded();
      return;
    case Deadline::settle:
      step_.changes = phase_ == Phase::running && change_is_due();
      return;
    case Deadline::stop:
      step_.is_done = true;
      return;
    case Deadline::kill:
    case Deadline::sweep:
    case Deadline::leave:
      step_.passed = deadline;
      return;
    default:
      return;
  }
}

int Judge::size_on(int slots) const {
  const auto& spec = scenario_.spec;
  if (spec.oversubscribe && slots > 0) slots = std::max(slots, spec.world_size());
  if (slots < scenario_.least()) return 0;
  const int beyond_spares = slots - spec.elastic.spares;
  return std::clamp(std::max(beyond_spares, std::min(spec.world_size(), slots)), scenario_.least(),
                    scenario_.most());
}

// Those on hosts that are only unlisted, where they alone hold the state, and there may be more ranks.
int Judge::handing_over() const {
  const bool in_place = scenario_.spec.elastic.on_failure == OnFailure::in_place || elastic_world_;
  if (!scenario_.in_place() || !in_place) return 0;
  int there = 0;
  bool holds = false;
  for (const auto& [id, worker] : workers_) {
    if (!is_member(worker) || !lives(worker) || worker.told_to_go) continue;
    const auto& on = hosts_.at(worker.seat.host.value);
    const bool goes = on.leaving || on.removed;
    const bool stays = on.kept && !on.listed && !goes && on.link == Link::ready;
    if (worker.was_member && !stays && !goes) return 0;
    there += stays ? 1 : 0;
    holds = holds || (stays && worker.was_member);
  }
  return holds && !scenario_.spec.oversubscribe && scenario_.most() > there ? there : 0;
}

// By what is beyond doubt: hosts that never gave any trouble hold a larger world, or one without those that
// go.
bool Judge::change_is_due() const {
  if (!goes_on() || program_ends() || over_ || !world_) return false;
  const int hand_over = handing_over();
  const int size = size_on(good_slots(Link::ready) + (elastic_world_ ? hand_over : 0));
  bool leaves = false, state_leaves = false;
  for (const auto& [id, worker] : workers_) {
    if (worker.dismissed && lives(worker)) return false;
    const auto& on = hosts_.at(worker.seat.host.value);
    const bool goes = is_member(worker) && lives(worker) && (!on.listed || on.leaving || on.removed);
    const bool beyond =
        live_members(worker.seat.host, {}) > slots_there(worker.seat.host);  // one of them goes
    leaves = leaves || goes;
    state_leaves = state_leaves || ((goes || beyond) && worker.was_member);
  }
  // Those that load are waited for, but not on hosts that go.
  if (kept_ && met_ != world_->placement.generation)
    return size > 0 && hand_over == 0 && leaves && !state_leaves;
  const bool grows = size > static_cast<int>(world_->workers.size()) &&
                     (horovods_ ? horovods_may_come() : !grows_later() || newcomers(true) > 0);
  return (grows && !loads()) || (size > 0 && hand_over == 0 && leaves);
}

// What the ranks of a world that meets have loaded is not thrown away for hosts that come.
bool Judge::loads() const {
  if (!world_ || met_ == world_->placement.generation) return false;
  return joined_ || (scenario_.spec.compat == Compat::horovod && waits_.armed(Deadline::steady));
}

void Judge::check_change(Phase phase) {
  if (phase != Phase::running || waits_.armed(Deadline::settle) || waits_.armed(Deadline::cause)) return;
  if (!change_is_due() || announced_generation_ == world_->placement.generation) return;
  fail("the world is to change, and nothing is under way");
}

// Nobody has started so lately that it may still read its data.
bool Judge::all_loaded() const {
  return std::none_of(workers_.begin(), workers_.end(), [](const auto& it) {
    return it.second.state == Known::State::started && !it.second.was_member;
  });
}

void Judge::note_answer(const JobAction& action) {
  if (std::holds_alternative<Inspect>(action)) step_.did_inspect = true;
  if (std::holds_alternative<AskForHosts>(action)) step_.did_ask = true;
  if (std::holds_alternative<Announce>(action)) step_.did_announce = true;
  const auto* signal = std::get_if<SignalWorkers>(&action);
  if (signal == nullptr) return;
  if (signal->workers.empty()) step_.did_signal_all = true;
  for (const auto id : signal->workers) {
    const auto it = workers_.find(id);
    const bool has_no_place = it != workers_.end() && it->second.dismissed;  // it is told so by a signal
    if (signal->number == SIGKILL || !has_no_place) step_.signalled.insert(id);
  }
}

void Judge::check_answer(const JobMachine& machine) {
  const auto phase = machine.phase();
  const bool runs = phase == Phase::forming || phase == Phase::running;
  const bool ended = !runs || (world_ && over_) ||
                     (world_ && machine.progress().generation > world_->placement.generation.value);
  const bool job_ends = job_ends_ || phase == Phase::closing || phase == Phase::done;
  const auto need = [this](bool when, const char* what) {
    if (when) fail(what);
  };
  need(step_.ends_world && !ended, "its world goes on after what ends it");
  need(step_.keeps_world && ended, "a world is ended by what its members deal with themselves");
  need(step_.waits_for_cause && ended, "a victim is taken for the cause at once");
  need(step_.waits_for_cause && !waits_.armed(Deadline::cause), "a victim's cause is not waited for");
  need(step_.ends_job && !job_ends, "the job goes on after what ends it");
  need(step_.inspects && !step_.did_inspect, "a silent world is not looked at");
  need(step_.nobody_came && step_.did_inspect, "survivors that are on their way are looked at");
  need(step_.asks && !job_ends && !step_.did_ask, "hosts go, and nobody asks for others");
  need(step_.changes && !ended && !step_.did_announce, "the world was to change, and nothing follows");
  need(step_.joins && !ended && !waits_.armed(Deadline::join), "members are late, and nothing is waited for");
  need(step_.alive && waits_.armed(Deadline::inspect), "the world lives, and is looked at");
  need(step_.is_done && phase != Phase::done, "agents have had their time, and the job is not over");
  if (step_.only && (step_.did_signal_all || step_.signalled != std::set<WorkerId>{*step_.only}))
    fail(fmt::format("worker {} alone is to start anew, and others are signalled", step_.only->value));
  check_spared(job_ends);
  check_given_up();
}

// In place the others go on; a world that starts anew ends them all.
void Judge::check_spared(bool job_ends) {
  if (!step_.spares_others || job_ends || !over_) return;
  const bool survivors = std::any_of(workers_.begin(), workers_.end(), [this](const auto& it) {
    return is_member(it.second) && it.second.state == Known::State::started && !it.second.ended_by_order;
  });
  if (step_.in_place && survivors && step_.did_signal_all) fail("all start anew, and some could go on");
  if (step_.in_place && survivors && !step_.signalled.empty()) fail("one that could go on is ended");
  if (!scenario_.in_place() && !step_.did_signal_all)
    fail("a world starts anew, and its ranks are not ended");
}

// What the host has told by now is from this time or before.
Instant Judge::known_until(HostIndex index) const {
  const auto it =
      std::find_if(late_.begin(), late_.end(), [index](const auto& one) { return one.host == index; });
  return it == late_.end() ? now_ : it->until;
}

void Judge::check_given_up() {
  if (!step_.passed) return;
  // What the host tells late is not waited for by somebody who asks twice.
  const auto is_known = [this](HostIndex index, Instant due) {
    return known_until(index) == now_ ||
           (hurried_at_ && now_ - std::max(due, *hurried_at_) >= longest_in_a_hurry);
  };
  for (const auto& [id, worker] : workers_) {
    if (worker.state != Known::State::started || host(worker.seat.host).link != Link::ready) continue;
    if (*step_.passed == Deadline::kill && worker.killed_at && now_ - *worker.killed_at >= after_kill &&
        is_known(worker.seat.host, *worker.killed_at + after_kill))
      fail(fmt::format("worker {} withstands SIGKILL, and its host stays", id.value));
    const bool had_its_time = worker.told_to_go && now_ - *worker.told_to_go >= scenario_.spec.grace;
    if (*step_.passed == Deadline::leave && worker.dismissed && !worker.killed_at && had_its_time &&
        phase_ != Phase::draining)
      fail(fmt::format("worker {} has no place, and is not ended after its grace", id.value));
  }
  for (std::size_t i = 0; i < hosts_.size() && *step_.passed == Deadline::sweep; ++i)
    if (hosts_[i].link == Link::ready && hosts_[i].sweep_since &&
        is_known({static_cast<std::uint32_t>(i)}, *hosts_[i].sweep_since + scenario_.spec.grace + after_kill))
      fail(fmt::format("host {} does not clear up, and stays", i));
}

// Whoever goes, goes when nobody there is left.
void Judge::check_stop(HostIndex index) {
  if (!goes_on()) return;
  const auto& it = host(index);
  if (it.listed && !it.leaving && !it.removed)
    fail(fmt::format("host {} is sent away, and serves", index.value));
  for (const auto& [id, worker] : workers_)
    if (worker.seat.host == index && !ended(worker))
      fail(fmt::format("host {} is sent away, and worker {} is not through there", index.value, id.value));
}

void Judge::check_released(Phase phase) {
  if (phase != Phase::running && phase != Phase::cooling) return;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    const HostIndex index{static_cast<std::uint32_t>(i)};
    const auto& it = hosts_[i];
    if (it.link != Link::ready || !(it.leaving || it.removed) || it.sweep_since) continue;
    const bool used = std::any_of(workers_.begin(), workers_.end(), [&](const auto& one) {
      return one.second.seat.host == index && (is_member(one.second) || !ended(one.second));
    });
    if (!used) fail(fmt::format("host {} is to go, nobody is there, and it stays", i));
  }
}

}  // namespace trainrun::sim
