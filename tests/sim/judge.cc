#include "tests/sim/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <variant>

namespace trainrun::sim {

using namespace core;

namespace {

template <class... Parts>
struct Cases : Parts... {
  using Parts::operator()...;
};

}  // namespace

Judge::Judge(const Scenario& scenario)
    : scenario_(scenario), waits_(scenario, [this](std::string what) { fail(std::move(what)); }) {
  for (const auto& host : scenario.spec.hosts.hosts) hosts_.push_back({.host = host});
}

Judge::KnownHost& Judge::host(HostIndex index) {
  if (index.value < hosts_.size()) return hosts_[index.value];
  fail(fmt::format("host {} is not known", index.value));
  hosts_.resize(index.value + 1);
  return hosts_[index.value];
}

void Judge::lose(HostIndex index) {
  auto& it = host(index);
  it.link = Link::none;
  it.leaving = it.kept = false;
  it.was_lost = true;
  it.sweep_since.reset();
  for (auto& [id, worker] : workers_) {
    if (worker.seat.host != index) continue;
    worker.finished = true;  // its output cannot come any more
    if (!lives(worker)) continue;
    worker.state = Known::State::lost;
    note_death(id, ExitStatus::lost({}));
  }
}

// A host is healthy until something there has withstood a SIGKILL, or its agent has not answered for longer
// than clearing up may take.
void Judge::abandons(HostIndex index, Instant now) {
  constexpr Duration after_kill = seconds(5);
  auto& it = host(index);
  const bool leaves_at_once = signals_ >= 3;
  if (it.link == Link::none) fail(fmt::format("host {} is given up, and is not there", index.value));
  if (goes_on() && it.link == Link::dialling && it.listed && !it.leaving && !it.removed)
    note_trouble(index, false);
  if (goes_on() && it.link == Link::ready) {
    it.good = it.stays = false;
    it.rests_until = std::max(it.rests_until, now + scenario_.spec.elastic.cooldown_min);
  }
  if (it.link != Link::ready || leaves_at_once || index == ready_now_) return;
  const bool withstands = std::any_of(workers_.begin(), workers_.end(), [&](const auto& one) {
    const auto& worker = one.second;
    return worker.seat.host == index && lives(worker) && worker.killed_at &&
           known_until(index) - *worker.killed_at >= after_kill;
  });
  const bool silent =
      it.sweep_since && known_until(index) - *it.sweep_since >= scenario_.spec.grace + after_kill;
  if (!withstands && !silent)
    fail(fmt::format("host {} is given up, and nothing there withstood a SIGKILL", index.value));
}

void Judge::need_link(HostIndex index, const char* what) {
  if (host(index).link != Link::ready)
    fail(fmt::format("{} is sent to host {}, which is not there", what, index.value));
}

// ---- what the brain is told

void Judge::event(const JobEvent& event, Instant now) {
  now_ = now;
  note_question(event);
  note_end(event);
  note_hosts(event);
  waits_.event(event, now);
  note_failure(event);
  note_newcomer(event);
  ready_now_.reset();
  join_passed_ = false;
  note_end_of_program(event);
  plan_is_old_ = plan_is_old_ || std::holds_alternative<AddHosts>(event) ||
                 std::holds_alternative<HostsDiscovered>(event) || std::holds_alternative<WorldJoined>(event);
  if (const auto* broken = std::get_if<WorldBroken>(&event)) broken_generation_ = broken->generation;
  const auto* waits = std::get_if<MemberWaits>(&event);
  may_charge_ = std::holds_alternative<WorkerExited>(event) ||
                std::holds_alternative<WorkerNotStarted>(event) || std::holds_alternative<HostLost>(event) ||
                std::holds_alternative<WorldBroken>(event) || std::holds_alternative<InspectionDone>(event) ||
                std::holds_alternative<PortRefused>(event) ||
                (waits != nullptr && waits->generation.value != 0 &&
                 (waits->generation == broken_generation_ || waits->generation != announced_generation_)) ||
                !failed_.empty() || owed_;
  const auto* passed = std::get_if<DeadlinePassed>(&event);
  late_ = passed == nullptr ? std::vector<LateHost>{} : passed->late;
  const auto worker = [this](WorkerId id, auto&& work) {
    if (const auto it = workers_.find(id); it != workers_.end()) work(it->second);
  };
  std::visit(Cases{[&](const HostReady& it) {
                     ready_now_ = it.host;
                     if (host(it.host).link == Link::dialling) host(it.host).link = Link::ready;
                   },
                   [&](const HostFailed& it) { host(it.host).link = Link::none; },
                   [&](const HostLost& it) {
                     const bool serves = host(it.host).listed || (host(it.host).kept && !listed_hosts_hold());
                     if (host(it.host).leaving || !serves) may_charge_ = !failed_.empty() || owed_;
                     lose(it.host);
                   },
                   [&](const HostStopped& it) { lose(it.host); },
                   [&](const HostLeaving& it) {
                     host(it.host).leaving = scenario_.spec.elastic.enabled();
                     host(it.host).was_lost = true;
                   },
                   [&](const WorkerStarted& it) {
                     worker(it.worker, [now](Known& known) {
                       if (known.state != Known::State::ordered) return;
                       known.state = Known::State::started;
                       known.started_at = now;
                     });
                   },
                   [&](const WorkerNotStarted& it) {
                     worker(it.worker, [&](Known& known) {
                       if (known.state == Known::State::ordered) known.status = it.status;
                       known.state = Known::State::exited;
                       note_death(it.worker, it.status);
                     });
                   },
                   [&](const WorkerExited& it) {
                     worker(it.worker, [&](Known& known) {
                       if (!lives(known)) return;
                       known.state = Known::State::exited;
                       known.status = it.status;
                       known.ended_at = it.at;
                       known.asked = it.signalled.bits != 0;
                       known.lost_peer = it.lost_peer;
                       note_death(it.worker, it.status);
                     });
                   },
                   [&](const WorkerFinished& it) {
                     worker(it.worker, [&](Known& known) {
                       known.finished = true;
                       if (phase_ != JobMachine::Phase::closing) known.lost_peer = it.lost_peer;
                     });
                   },
                   [&](const HostSwept& it) {
                     if (it.generation == host(it.host).sweep_of) host(it.host).sweep_since.reset();
                   },
                   [&](const MemberJoined& it) {
                     if (!world_ || it.generation != world_->placement.generation) return;
                     joined_ = true;
                     const auto id = world_->workers[it.rank.value];
                     survivor_joined_ = survivor_joined_ || workers_.at(id).was_member;
                   },
                   [&](const WorldJoined& it) {
                     if (!world_ || it.generation != world_->placement.generation) return;
                     met_ = it.generation;
                     elastic_world_ = it.elastic;
                     horovods_ = it.horovod;
                     if (!over_) grows_ = it.elastic && !it.horovod;
                     died_unfinished_.reset();
                     for (const auto id : world_->workers)
                       if (!std::exchange(workers_.at(id).was_member, true)) newcomers_failed_ = 0;
                   },
                   [&](const HostsDiscovered& it) {
                     for (auto& known : hosts_) {
                       const auto found =
                           std::find_if(it.hosts.begin(), it.hosts.end(),
                                        [&](const Host& one) { return one.name == known.host.name; });
                       if (found != it.hosts.end() && scenario_.spec.elastic.enabled())
                         known.host.slots = found->slots;
                       const bool here = added_.contains(known.host.name) || found != it.hosts.end();
                       if (here && !known.listed && known.link == Link::none) {
                         known.removed = known.leaving = false;
                         known.away_until = {};
                       }
                       if (known.listed && !here)
                         known.kept = known.link == Link::ready && world_.has_value();
                       known.listed = here;
                     }
                   },
                   [&](const RemoveHost& it) {
                     added_.erase(it.name);
                     for (auto& known : hosts_)
                       if (known.host.name == it.name) known.removed = scenario_.spec.elastic.enabled();
                   },
                   [&](const AddHosts& it) {
                     for (const auto& one : it.hosts)
                       if (std::none_of(hosts_.begin(), hosts_.end(), [&](const auto& known) {
                             return known.listed && known.host.name == one.name;
                           }))
                         added_.insert(one.name);
                     for (auto& known : hosts_)
                       for (const auto& one : it.hosts)
                         if (known.host.name == one.name) {
                           if (scenario_.spec.elastic.enabled()) known.host.slots = one.slots;
                           known.listed = true;
                           known.removed = known.leaving = false;
                         }
                   },
                   [&](const StopWorker& it) { note_stopped(it.rank); },
                   [&](const UserSignal& it) {
                     if (signals_++ == 0) user_signal_ = it.number;
                   },
                   [&](const OutputClosed&) { output_closed_ = true; },
                   [&](const DeadlinePassed& it) {
                     grace_passed_ = it.deadline == Deadline::grace;
                     join_passed_ = it.deadline == Deadline::join;
                     may_charge_ = may_charge_ || it.deadline == Deadline::join ||
                                   it.deadline == Deadline::inspect || it.deadline == Deadline::newcomers;
                     if (it.deadline == Deadline::job) job_timed_out_ = true;
                   },
                   [](const auto&) {}},
             event);
}

void Judge::capacity(bool enough, Instant now) {
  if (!enough)
    enough_since_.reset();
  else if (!enough_since_)
    enough_since_ = now;
}

// ---- what it orders

void Judge::action(const JobAction& action, Instant now) {
  now_ = now;
  waits_.action(action, now);
  note_answer(action);
  check_order(action);
  if (outcome_ && !std::holds_alternative<Tell>(action)) fail("an order after the end: " + print(action));
  std::visit(Cases{[&](const AddHost& it) {
                     if (it.host.value != hosts_.size())
                       return fail("a new host is not at the end of the list");
                     hosts_.push_back({.host = it.as});
                   },
                   [&](const DialHost& it) {
                     auto& known = host(it.host);
                     check_dial(it.host);
                     if (known.link != Link::none)
                       fail(fmt::format("host {} is dialled, and is there", it.host.value));
                     if (known.removed)
                       fail(fmt::format("host {} is dialled, and was removed", it.host.value));
                     known.link = Link::dialling;
                   },
                   [&](const ReservePort& it) {
                     plan_is_old_ = false;
                     need_link(it.host, "the order for a port");
                     reserved_ = it.generation;
                   },
                   [&](const BeginWorld& it) { begins(it); }, [&](const PlanNewcomers& it) { plans(it); },
                   [&](const StartWorker& it) { starts(it); },
                   [&](const SignalWorkers& it) {
                     note_signals(it);
                     for (auto& [id, known] : workers_) {
                       const bool meant =
                           it.workers.empty() ||
                           std::find(it.workers.begin(), it.workers.end(), id) != it.workers.end();
                       if (it.number == SIGKILL && meant && lives(known) && !known.killed_at)
                         known.killed_at = now;
                       if (it.workers.empty() && std::exchange(known.newcomer, false))
                         known.ended_by_order = true;
                     }
                     for (const auto id : it.workers) {
                       const auto known = workers_.find(id);
                       if (known == workers_.end()) return fail("a signal for an unknown worker");
                       need_link(known->second.seat.host, "a signal");
                       if (it.number == SIGKILL) check_grace(known->second, id);
                       check_kill_while_loading(known->second, id);
                       known->second.ended_by_order = true;
                       if (std::exchange(known->second.newcomer, false)) known->second.dismissed = true;
                     }
                   },
                   [&](const Sweep& it) {
                     need_link(it.host, "a sweep");
                     if (!it.generation) return;
                     host(it.host).sweep_since = now;
                     host(it.host).sweep_of = *it.generation;
                   },
                   [&](const Announce& it) {
                     announced_generation_ = it.generation;
                     for (const auto id : it.leaving)
                       if (workers_.contains(id)) {
                         workers_.at(id).ended_by_order = true;
                         tell_to_go(workers_.at(id));
                       }
                   },
                   [&](const Dismiss& it) {
                     const auto known = workers_.find(it.worker);
                     if (known == workers_.end()) return;
                     known->second.ended_by_order = known->second.dismissed = true;
                     tell_to_go(known->second);
                     // A world that just began goes on without it.
                     const bool member = !std::exchange(known->second.newcomer, false);
                     if (member && lives(known->second) && !began_) dismissed_unfinished_ = it.worker;
                   },
                   [&](const EndGeneration& it) {
                     if (it.job_ends && !job_ends_) over_before_end_ = over_;
                     over_ = true;
                     note_who_is_freed(it);
                     note_planned(it.cause);
                     if (it.job_ends && !job_ends_) {
                       job_ends_ = now;
                       told_cause_ = it.cause;
                     }
                   },
                   [&](const StopHost& it) {
                     need_link(it.host, "the order to stop");
                     check_stop(it.host);
                     host(it.host).link = Link::closing;
                   },
                   [&](const AbandonHost& it) {
                     abandons(it.host, now);
                     lose(it.host);
                   },
                   [&](const Arm& it) {
                     settles_ = settles_ || it.deadline == Deadline::settle;
                     if (it.deadline == Deadline::backoff) check_who_backs_off();
                     if (it.at < now) fail("a deadline in the past");
                   },
                   [&](const Tell& it) { note_told(it.notice); },
                   [&](const Finish& it) { ends(it.outcome, now); }, [](const auto&) {}},
             action);
}

void Judge::after_step(const JobMachine& machine) {
  if (const auto broken = machine.broken_invariant(); !broken.empty()) fail("the brain itself: " + broken);
  using Phase = JobMachine::Phase;
  const auto needs = [this](std::initializer_list<Deadline> some, const char* phase) {
    if (std::none_of(some.begin(), some.end(), [this](Deadline one) { return waits_.armed(one); }))
      fail(fmt::format("{} without a deadline", phase));
  };
  const auto only = [&](Deadline one, std::initializer_list<Phase> phases) {
    if (waits_.armed(one) && std::find(phases.begin(), phases.end(), machine.phase()) == phases.end())
      fail(fmt::format("deadline {} is armed while {}", static_cast<int>(one), to_string(machine.phase())));
  };
  only(Deadline::start, {Phase::gathering});
  only(Deadline::world, {Phase::gathering, Phase::cooling});
  only(Deadline::backoff, {Phase::cooling});
  for (const auto one : {Deadline::finish, Deadline::newcomers})
    only(one, {Phase::forming, Phase::running, Phase::cooling});
  only(Deadline::settle, {Phase::running, Phase::cooling});
  for (const auto one : {Deadline::join, Deadline::cause}) only(one, {Phase::forming, Phase::running});
  for (const auto one : {Deadline::inspect, Deadline::steady}) only(one, {Phase::running});
  for (const auto one : {Deadline::grace, Deadline::kill, Deadline::sweep}) only(one, {Phase::draining});
  only(Deadline::notice, {Phase::gathering, Phase::draining, Phase::closing});
  only(Deadline::stop, {Phase::closing});
  switch (machine.phase()) {
    case Phase::gathering:
      needs({Deadline::start, Deadline::world}, "gathering");
      break;
    case Phase::draining:
      needs({Deadline::grace, Deadline::kill, Deadline::sweep}, "draining");
      break;
    case Phase::cooling:
      needs({Deadline::backoff, Deadline::settle, Deadline::world, Deadline::leave, Deadline::finish},
            "cooling");
      break;
    case Phase::closing:
      needs({Deadline::stop}, "closing");
      break;
    case Phase::forming:
    case Phase::running:
    case Phase::done:
      break;
  }
  if (!to_start_.empty()) fail("a rank of the new generation was not started");
  if (std::exchange(began_, false))
    for (const auto& [id, worker] : workers_)
      if (lives(worker) && worker.generation != world_->placement.generation && !worker.newcomer &&
          !worker.ended_by_order)
        fail(fmt::format("worker {} lives on without a place, and was not told", id.value));
  check_costs(machine);
  check_end_of_program(machine);
  check_settle(machine);
  check_views(machine);
  check_prompt(machine);
  check_waits(machine.phase());
  check_reached(machine.phase());
  check_ladder(machine.phase());
  check_answer(machine);
  check_released(machine.phase());
  check_change(machine.phase());
  check_newcomers(machine);
  note_world(machine);
  phase_ = machine.phase();
}

}  // namespace trainrun::sim
