#include "launcher/core/job_machine.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/base/strings.h"

namespace trainrun::core {
namespace {

// When a host needs longer to answer, the user is told which.
constexpr Duration patience_with_hosts = seconds(5);

}  // namespace

std::string to_string(JobPhase phase) {
  using Phase = JobPhase;
  switch (phase) {
    case Phase::gathering:
      return "gathering";
    case Phase::forming:
      return "forming";
    case Phase::running:
      return "running";
    case Phase::draining:
      return "draining";
    case Phase::cooling:
      return "cooling";
    case Phase::closing:
      return "closing";
    case Phase::done:
      return "done";
  }
  return {};
}

JobMachine::JobMachine(JobSpec spec, Placement first)
    : spec_(std::move(spec)),
      world_(std::move(first)),
      ledger_(spec_.elastic.cooldown_min, spec_.elastic.cooldown_max),
      budget_(spec_.elastic.limit) {
  for (std::uint32_t i = 0; i < spec_.hosts.hosts.size(); ++i) {
    HostEntry entry;
    entry.host = spec_.hosts.hosts[i];
    entry.listed = elastic() || std::any_of(world_.seats.begin(), world_.seats.end(),
                                            [i](const Seat& seat) { return seat.host.value == i; });
    hosts_.push_back(std::move(entry));
    if (hosts_.back().listed) order_.push_back(HostIndex{i});
  }
  verdict_.generation = world_.generation;
}

JobActions JobMachine::step(const JobEvent& event, Instant now) {
  now_ = now;
  actions_.clear();
  std::visit([this](const auto& it) { on(it); }, event);
  return std::move(actions_);
}

JobMachine::Progress JobMachine::progress() const {
  Progress p;
  p.phase = phase_;
  p.generation = world_.generation.value;
  p.ranks = static_cast<int>(world_.seats.size());
  p.ending = still_to_end();
  p.drained_at = drained_at_;
  for (const auto& host : hosts_) {
    p.hosts += host.listed ? 1 : 0;
    p.hosts_ready += host.state == HostState::ready ? 1 : 0;
  }
  for (const auto& [id, worker] : workers_) {
    if (!worker.member) continue;
    p.started += worker.state != WorkerState::ordered ? 1 : 0;
    p.alive += worker.state == WorkerState::spawned ? 1 : 0;
    p.finished += worker.state == WorkerState::finished ? 1 : 0;
  }
  return p;
}

const Seat* JobMachine::seat_of(WorkerId worker) const {
  const auto it = workers_.find(worker);
  return it == workers_.end() ? nullptr : &it->second.seat;
}

void JobMachine::enter(Phase next) {
  tell(notice::PhaseChanged{phase_, next});
  phase_ = next;
  for (const auto deadline : std::set<Deadline>(armed_))
    if (!belongs(deadline, next)) disarm(deadline);
}

void JobMachine::ignore(const char* what, const char* why) { tell(notice::Ignored{what, why}); }

void JobMachine::arm(Deadline deadline, Instant at) {
  act(Arm{deadline, at});
  armed_.insert(deadline);
}

void JobMachine::disarm(Deadline deadline) {
  if (armed_.erase(deadline) > 0) act(Disarm{deadline});
}

bool JobMachine::all_members(WorkerState state) const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [state](const auto& it) { return !it.second.member || it.second.state == state; });
}

bool JobMachine::none_alive() const {
  return std::none_of(workers_.begin(), workers_.end(), [](const auto& it) {
    return it.second.state == WorkerState::ordered || it.second.state == WorkerState::spawned;
  });
}

// ---- what the phase allows. Each names every phase, so that a new one has to be thought of here.

bool JobMachine::still_changes() const {
  switch (phase_) {
    case Phase::gathering:
    case Phase::forming:
    case Phase::running:
    case Phase::cooling:
      return elastic();
    case Phase::draining:
      return elastic() && then_ == Then::restart;
    case Phase::closing:
    case Phase::done:
      break;
  }
  return false;
}

// Workers of this generation were ordered, and nobody has begun to end them.
bool JobMachine::world_stands() const {
  switch (phase_) {
    case Phase::forming:
      return begun_;
    case Phase::running:
      return true;
    case Phase::gathering:
    case Phase::draining:
    case Phase::cooling:
    case Phase::closing:
    case Phase::done:
      break;
  }
  return false;
}

bool JobMachine::may_restart() const {
  switch (phase_) {
    case Phase::running:
      return elastic() && !(in_place_now() && somebody_finished_well());  // else the program is ending
    case Phase::gathering:
    case Phase::forming:
    case Phase::draining:
    case Phase::cooling:
    case Phase::closing:
    case Phase::done:
      break;
  }
  return false;
}

bool JobMachine::may_restart(Rank rank) const {
  const auto* worker = member_at(rank);
  return may_restart() && worker != nullptr && worker->state == WorkerState::spawned;
}

// ---- gathering

void JobMachine::on(const Begin&) {
  began_ = now_;
  arm(Deadline::start, now_ + first_patience());
  if (spec_.timeout) arm(Deadline::job, now_ + *spec_.timeout);
  if (elastic()) return dial_wanted();
  arm(Deadline::notice, now_ + patience_with_hosts);
  for (const auto index : order_) dial(index);
}

void JobMachine::on(const HostReady& event) {
  auto& host = hosts_.at(event.host.value);
  host.facts = event.facts;
  if (const auto good = slots_suit(event.host); !good && host.state == HostState::dialling) {
    act(AbandonHost{event.host});
    return on(HostFailed{event.host, good.error()});
  }
  switch (phase_) {
    case Phase::gathering: {
      if (host.state != HostState::dialling) return ignore("host ready", "it was given up");
      host_ready(event.host);
      if (elastic()) return try_form();
      if (any_dialling()) return;
      return verdict_.host_errors.empty() ? form() : give_up_gathering();
    }
    case Phase::forming:
    case Phase::running:
    case Phase::cooling:
      if (host.state != HostState::dialling) return ignore("host ready", "it was ready before, or given up");
      host_ready(event.host);
      if (phase_ == Phase::cooling) return try_form();
      return consider_change();
    case Phase::draining:
      if (then_ == Then::restart && host.state == HostState::dialling) {
        return host_ready(event.host);
      }
      [[fallthrough]];
    case Phase::closing:
    case Phase::done:
      if (host.state == HostState::ready || host.state == HostState::stopping)
        return ignore("host ready", "it was ready before");
      // An agent that comes up while we end must not live on: its Link is closed at once.
      act(AbandonHost{event.host});
      host.state = HostState::gone;
      return phase_ == Phase::closing ? finish_if_all_gone() : void();
  }
}

void JobMachine::on(const HostFailed& event) {
  auto& host = hosts_.at(event.host.value);
  switch (phase_) {
    case Phase::gathering:
      if (host.state != HostState::dialling) return ignore("host failed", "it was given up");
      host.state = HostState::gone;
      std::erase_if(verdict_.host_errors, [&](const auto& it) { return it.first == event.host; });
      verdict_.host_errors.emplace_back(event.host, event.error);
      if (elastic()) {
        host_unusable(event.host);
        return try_form();
      }
      // All failing hosts belong in one report: the others are waited for until the start deadline.
      return any_dialling() ? void() : give_up_gathering();
    case Phase::forming:
    case Phase::running:
    case Phase::draining:
    case Phase::cooling:
      if (host.state != HostState::dialling)
        return ignore("host failed", "it was ready before; a lost host is told otherwise");
      host.state = HostState::gone;
      tell_host_error(event.host, event.error);
      host_unusable(event.host);
      return phase_ == Phase::cooling ? try_form() : dial_wanted();
    case Phase::closing:
    case Phase::done:
      host.state = HostState::gone;
      return finish_if_all_gone();
  }
}

void JobMachine::give_up_gathering() {
  for (std::uint32_t i = 0; i < hosts_.size(); ++i) {
    if (hosts_[i].state != HostState::dialling) continue;
    verdict_.host_errors.emplace_back(
        HostIndex{i},
        Error{Code::unreachable,
              fmt::format("{}: no answer within {}", host_name({i}), format_duration(spec_.start_timeout)),
              "see whether the host is up and its sshd is not overloaded, or give --start-timeout more"});
    give_up_host({i});
  }
  std::sort(verdict_.host_errors.begin(), verdict_.host_errors.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  end_because(Outcome::Kind::hosts_failed);
}

// ---- forming

void JobMachine::form() {
  if (phase_ == Phase::gathering && !mpi_is_one()) return end_because(Outcome::Kind::mpi_mixed);
  enter(Phase::forming);
  begun_ = false;
  act(ReservePort{world_.generation, world_.seats.front().host});
}

void JobMachine::on(const PortReserved& event) {
  switch (phase_) {
    case Phase::forming:
      if (event.generation != world_.generation || begun_) return ignore("port reserved", "not asked for");
      return begin_world();
    case Phase::gathering:
    case Phase::running:
    case Phase::cooling:
      return ignore("port reserved", "not asked for");
    case Phase::draining:
    case Phase::closing:
    case Phase::done:
      return ignore("port reserved", "the world is ending");
  }
}

void JobMachine::on(const PortRefused& event) {
  switch (phase_) {
    case Phase::forming:
      if (event.generation != world_.generation || begun_) return ignore("port refused", "not asked for");
      verdict_.why = cause::PortRefused{event.error};
      return trouble({.kind = Outcome::Kind::port_refused,
                      .what = cause::PortRefused{event.error},
                      .cause = CauseKind::no_port});
    case Phase::gathering:
    case Phase::running:
    case Phase::cooling:
      return ignore("port refused", "not asked for");
    case Phase::draining:
    case Phase::closing:
    case Phase::done:
      return ignore("port refused", "the world is ending");
  }
}

// One program instance a rank; ids are never reused, so a message about an old one can never be taken for a
// new one. Survivors keep their worker.
void JobMachine::begin_world() {
  begun_ = true;
  begun_generation_ = world_.generation;
  met_ = announced_ = false;
  // Who was lost is replaced, once the world has met.
  if (!survivors_stay_) failed_before_.clear();
  if (!survivors_stay_ || (unfinished_ && unfinished_->planned)) unfinished_.reset();
  had_not_finished_.clear();
  finish_by_.reset();
  broken_.reset();
  std::map<std::pair<HostIndex, std::uint32_t>, WorkerId> living;
  for (auto& [id, worker] : workers_) {
    if (worker.member && worker.state == WorkerState::spawned)
      living[{worker.seat.host, worker.seat.slot}] = id;
  }
  BeginWorld begin{world_, {}, static_cast<std::uint32_t>(verdict_.restarts)};
  std::vector<StartWorker> starts;
  const Shares shares(spec_, world_, [this](HostIndex index) {
    const auto& host = hosts_.at(index.value);
    const auto slots = elastic() ? std::max(0, slots_of(spec_, host.host)) : 0;
    return Shares::Of{static_cast<std::uint32_t>(slots), host.facts.get()};
  });
  for (const auto& seat : world_.seats) {
    const auto survivor = living.find({seat.host, seat.slot});
    if (survivor != living.end()) {
      auto& worker = workers_.at(survivor->second);
      worker.seat = seat;
      worker.joined = worker.waits = worker.told = false;
      begin.workers.push_back(survivor->second);
      living.erase(survivor);
      continue;
    }
    ++last_worker_.value;
    workers_[last_worker_].seat = seat;
    workers_[last_worker_].since = now_;
    begin.workers.push_back(last_worker_);
    starts.push_back({last_worker_, world_.generation, seat.rank, shares.of(seat)});
  }
  act(std::move(begin));
  for (const auto& [place, id] : living) dismiss(id);
  // Those that ended since have no place any more, and are not counted twice.
  for (auto it = workers_.begin(); it != workers_.end();) {
    auto& worker = it->second;
    const bool dead = worker.state == WorkerState::exited || worker.state == WorkerState::finished;
    if (worker.member && dead) worker.member = false;
    it = !worker.member && worker.state == WorkerState::finished ? workers_.erase(it) : std::next(it);
  }
  await_dismissed();
  world_ordered_at_ = now_;
  if (survivors_stay_) arm(Deadline::join, now_ + spec_.start_timeout);
  for (const auto& start : starts) act(start);
  release_unused();
  after_worker_change();
}

void JobMachine::on(const WorkerStarted& event) {
  switch (phase_) {
    case Phase::forming:
    case Phase::running:
    case Phase::draining:
    case Phase::cooling: {
      const auto it = workers_.find(event.worker);
      if (it == workers_.end() || it->second.state != WorkerState::ordered)
        return ignore("worker started", "it was started before, or its host is lost");
      it->second.state = WorkerState::spawned;
      it->second.pid = event.pid;
      it->second.since = now_;
      // Its order went out before the drain began, and so before the signal: it hears of the end like the
      // others.
      if (phase_ == Phase::forming || phase_ == Phase::draining) after_worker_change();
      return;
    }
    case Phase::gathering:
      return ignore("worker started", "none was ordered");
    case Phase::closing:
    case Phase::done:
      return ignore("worker started", "it was given up");
  }
}

}  // namespace trainrun::core
