// What the user is shown of hosts and ranks is what was told and ordered, and nothing that is due is put off:
// a phase ends with the last thing that it waits for.
#include <fmt/format.h>

#include <algorithm>

#include "launcher/core/replan.h"
#include "tests/sim/judge.h"

namespace trainrun::sim {

using namespace core;
using Phase = JobMachine::Phase;

namespace {

WorkerState shown(bool ordered, bool started, bool finished) {
  if (ordered) return WorkerState::ordered;
  if (started) return WorkerState::spawned;
  return finished ? WorkerState::finished : WorkerState::exited;
}

}  // namespace

bool Judge::is_member(const Known& worker) const { return in_world(worker) && !worker.dismissed; }

bool Judge::ended(const Known& worker) {
  return worker.state == Known::State::lost ||
         (worker.state == Known::State::exited &&
          (worker.finished || (worker.status && worker.status->kind == ExitStatus::Kind::not_started)));
}

void Judge::check_views(const JobMachine& machine) {
  const auto phase = machine.phase();
  for (const auto& view : machine.hosts()) check_host_view(view);
  if (phase == Phase::closing || phase == Phase::done) return;
  const bool output_is_late = phase == Phase::draining;  // then it counts as finished
  int alive = 0;
  for (const auto& view : machine.workers()) {
    const auto known = workers_.find(view.worker);
    if (known == workers_.end())
      return fail(fmt::format("worker {} is shown, and unknown", view.worker.value));
    const auto& worker = known->second;
    const auto is = shown(worker.state == Known::State::ordered, worker.state == Known::State::started,
                          ended(worker) || (output_is_late && view.state == WorkerState::finished));
    if (view.state != is)
      fail(fmt::format("worker {} is shown as {}, and is {}", view.worker.value, to_string(view.state),
                       to_string(is)));
    if (view.seat.host != worker.seat.host || view.seat.slot != worker.seat.slot ||
        view.seat.rank != worker.seat.rank)
      fail(fmt::format("worker {} is shown elsewhere than it is", view.worker.value));
    alive += worker.state == Known::State::started ? 1 : 0;
  }
  if (machine.progress().alive != alive) fail("the status counts other ranks than it shows");
  const auto members = std::count_if(workers_.begin(), workers_.end(), [this](const auto& it) {
    return is_member(it.second) && lives(it.second);
  });
  const auto views = machine.workers();
  const auto shown_alive = std::count_if(views.begin(), views.end(), [](const auto& it) {
    return it.state == WorkerState::ordered || it.state == WorkerState::spawned;
  });
  if (members != shown_alive) fail(fmt::format("{} members live, and {} are shown", members, shown_alive));
}

void Judge::check_host_view(const HostView& view) {
  const auto& known = host(view.index);
  const auto is = known.link == Link::none       ? HostState::gone
                  : known.link == Link::dialling ? HostState::dialling
                  : known.link == Link::ready    ? HostState::ready
                                                 : HostState::stopping;
  if (view.state != is)
    fail(fmt::format("host {} is shown as {}, and is {}", view.index.value, to_string(view.state),
                     to_string(is)));
  if (!scenario_.spec.elastic.enabled()) return;
  if (goes_on() && view.listed != known.listed)
    fail(fmt::format("host {} is shown as {}", view.index.value, view.listed ? "listed" : "unlisted"));
  if (view.stopped > known.stopped)
    fail(fmt::format("host {} has lost a slot that nobody stopped", view.index.value));
  if (goes_on() && view.leaves != (known.leaving || known.removed))
    fail(fmt::format("host {} is shown as if it {}", view.index.value, view.leaves ? "left" : "stayed"));
  if (goes_on() && view.kept && (view.listed || known.link == Link::none))
    fail(fmt::format("host {} is shown as kept, and is listed or gone", view.index.value));
}

// ---- nothing is put off

void Judge::check_prompt(const JobMachine& machine) {
  const auto phase = machine.phase();
  const auto any = [this](auto&& is) {
    return std::any_of(workers_.begin(), workers_.end(), [&](const auto& it) { return is(it.second); });
  };
  const auto late = [&](const char* what) { fail(fmt::format("still {}, and {}", to_string(phase), what)); };
  const bool stands = world_ && !over_ && machine.progress().generation == world_->placement.generation.value;
  const auto ordered = [this](const Known& it) { return is_member(it) && it.state == Known::State::ordered; };
  const auto awaited = [this](const Known& it) { return is_member(it) && !ended(it); };
  switch (phase) {
    case Phase::gathering:
      return check_gathering();
    case Phase::forming:
      if (stands && !any(ordered)) late("all are started");
      return;
    case Phase::running:
      if (stands && !any(awaited)) late("all have ended");
      if (stands && scenario_.in_place() && all_ask()) late("all that live ask for their next place");
      return;
    case Phase::draining:
      return check_draining();
    case Phase::cooling:
      return check_cooling();
    case Phase::closing:
      if (std::all_of(hosts_.begin(), hosts_.end(), [](const auto& it) { return it.link == Link::none; }))
        late("no host is there any more");
      return;
    case Phase::done:
      if (!outcome_) late("no outcome was told");
      return;
  }
}

bool Judge::all_ask() const {
  int live = 0;
  for (const auto& [id, worker] : workers_) {
    if (!is_member(worker) || !lives(worker)) continue;
    if (worker.asked_in != worker.generation) return false;
    ++live;
  }
  return live > 0;
}

// Some of a world that has met want the next one, and others do not.
bool Judge::some_ask() const {
  bool asks = false, others = false;
  for (const auto& [id, worker] : workers_) {
    if (!is_member(worker)) continue;
    const bool asked = worker.asked_in == worker.generation;
    asks = asks || (asked && lives(worker));
    others = others || (!asked && !ended(worker));
  }
  return scenario_.in_place() && !scenario_.spec.elastic.hang_timeout && asks && others;
}

// Those on whose end the drain waits: all, or those alone that are to end.
void Judge::check_draining() {
  const bool sweeps = std::any_of(hosts_.begin(), hosts_.end(),
                                  [](const auto& it) { return it.link == Link::ready && it.sweep_since; });
  const bool all_end = waits_.armed(Deadline::sweep) || job_ends_;
  const bool awaited = std::any_of(workers_.begin(), workers_.end(), [&](const auto& it) {
    const auto& worker = it.second;
    if (!all_end && asked_all_) return lives(worker) || (is_member(worker) && !ended(worker));
    if (all_end) return is_member(worker) && !ended(worker);
    return is_member(worker) &&
           (worker.state == Known::State::ordered || (lives(worker) && worker.killed_at));
  });
  if (!awaited && !sweeps) fail("still draining, and all have ended that are to end");
}

// By hosts that never gave any trouble.
int Judge::good_slots(Link link) const {
  int slots = 0;
  for (const auto& known : hosts_)
    if (known.good && known.listed && !known.removed && !known.leaving && known.link == link)
      slots += slots_of(scenario_.spec, known.host);
  return slot_stopped_ ? 0 : slots;
}

bool Judge::holds(int slots) const {
  return scenario_.spec.oversubscribe ? slots > 0 : slots >= scenario_.least();
}

void Judge::check_gathering() {
  const bool dials =
      std::any_of(hosts_.begin(), hosts_.end(), [](const auto& it) { return it.link == Link::dialling; });
  if (!scenario_.spec.elastic.enabled()) {
    if (!dials) fail("still gathering, and all hosts have answered");
    return;
  }
  const bool may_come = waits_.armed(Deadline::start) &&
                        (dials || scenario_.spec.elastic.discovery.kind != DiscoveryKind::none);
  if (!may_come && holds(good_slots(Link::ready))) fail("still gathering, and the hosts are there");
}

void Judge::check_cooling() {
  for (const auto one : {Deadline::backoff, Deadline::settle, Deadline::leave, Deadline::finish})
    if (waits_.armed(one)) return;
  if (holds(good_slots(Link::ready))) fail("still cooling, and the hosts are there");
}

void Judge::check_waits(Phase phase) {
  const bool late = world_ && !over_ && (met_ == world_->placement.generation ? some_ask() : kept_);
  // One that withstands SIGKILL keeps its slot while its host has ranks.
  static constexpr Duration after_kill = seconds(5);
  const bool dismissed = std::any_of(workers_.begin(), workers_.end(), [this](const auto& it) {
    const auto& worker = it.second;
    return worker.dismissed && worker.state == Known::State::started &&
           (!worker.killed_at || now_ - *worker.killed_at < after_kill);
  });
  waits_.after_step(phase, late, dismissed);
  const bool goes_on_now = phase == Phase::forming || phase == Phase::running || phase == Phase::cooling;
  for (const auto& [id, worker] : workers_)
    if (goes_on_now && goes_on() && worker.dismissed && worker.state == Known::State::started &&
        !worker.killed_at && waits_.armed(Deadline::leave) &&
        waits_.at(Deadline::leave) > std::max(now_, *worker.told_to_go + scenario_.spec.grace))
      fail(fmt::format("worker {} has no place, and has more than its grace", id.value));
  const bool loading = std::any_of(workers_.begin(), workers_.end(), [this](const auto& it) {
    return loads(it.second) && it.second.state == Known::State::started;
  });
  if (phase == Phase::running && loading && !over_ && !waits_.armed(Deadline::newcomers))
    fail("a newcomer loads, and nothing limits it");
}

}  // namespace trainrun::sim
