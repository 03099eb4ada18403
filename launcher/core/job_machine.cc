#include "launcher/core/job_machine.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/base/strings.h"

namespace trainrun::core {
namespace {

// When a host needs longer to answer, the user is told which.
constexpr Duration name_hosts_after = seconds(5);

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
      roster_(spec_, elastic()),
      world_(std::move(first)),
      restarts_(spec_.elastic.limit) {
  std::set<HostIndex> needed;
  for (const auto& seat : world_.seats()) needed.insert(seat.host);
  for (const auto index : needed) roster_.list(index);
  verdict_.generation = world_.generation();
}

JobActions JobMachine::step(const JobEvent& event, Instant now) {
  now_ = now;
  actions_.clear();
  late_.look_at(event);
  std::visit([this](const auto& it) { on(it); }, event);
  return std::move(actions_);
}

JobMachine::Progress JobMachine::progress() const {
  Progress p;
  p.phase = phase_;
  p.generation = world_.generation().value;
  p.ranks = world_.size();
  p.newcomers = static_cast<int>(world_.newcomers().size());
  p.ending = world_.counts().to_end;
  p.drained_at = ending_.drains_since();
  p.hosts = roster_.counts().listed;
  p.hosts_ready = roster_.count(HostState::ready);
  const auto& counts = world_.counts();
  p.started = counts.members - counts.members_that(WorkerState::ordered);
  p.alive = counts.members_that(WorkerState::spawned);
  p.finished = counts.members_that(WorkerState::finished);
  p.joined = met_ ? 0 : counts.joined;
  p.ordered_at = world_ordered_at_;
  if (world_stands()) p.newcomers_at = newcomers_start_at();
  p.waiting = counts.members_that_wait;
  return p;
}

const Seat* JobMachine::seat_of(WorkerId id) const {
  const auto* worker = world_.find(id);
  return worker == nullptr ? nullptr : &worker->seat;
}

bool JobMachine::is_member(WorkerId id) const {
  const auto* worker = world_.find(id);
  return worker != nullptr && worker->member;
}

void JobMachine::enter(Phase next) {
  tell(notice::PhaseChanged{phase_, next});
  phase_ = next;
  for (const auto& [deadline, due] : std::map(armed_))
    if (!belongs(deadline, next)) disarm(deadline);
}

void JobMachine::ignore(const char* what, const char* why) { tell(notice::Ignored{what, why}); }

void JobMachine::arm(Deadline deadline, Instant at) {
  act(Arm{deadline, at});
  armed_[deadline] = at;
}

void JobMachine::disarm(Deadline deadline) {
  if (armed_.erase(deadline) > 0) act(Disarm{deadline});
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
      return world_.begun();
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
  const auto* worker = world_.member_at(rank);
  return may_restart() && worker != nullptr && worker->state == WorkerState::spawned;
}

// ---- gathering

Duration JobMachine::gathering_timeout() const {
  return elastic() ? std::min(spec_.start_timeout, spec_.elastic.timeout) : spec_.start_timeout;
}

bool JobMachine::start_timeout_decides() const {
  return spec_.start_timeout_given && spec_.start_timeout <= spec_.elastic.timeout;
}

void JobMachine::on(const Begin&) {
  began_ = now_;
  arm(Deadline::start, now_ + gathering_timeout());
  if (spec_.timeout) arm(Deadline::job, now_ + *spec_.timeout);
  if (elastic()) return dial_wanted();
  arm(Deadline::notice, now_ + name_hosts_after);
  for (const auto index : roster_.order()) dial(index);
}

void JobMachine::on(const HostReady& event) {
  const auto& host = roster_.at(event.host);
  roster_.change(event.host, [&](HostEntry& it) { it.facts = event.facts; });
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
      roster_.become(event.host, HostState::gone);
      return;
  }
}

void JobMachine::on(const HostFailed& event) {
  const auto& host = roster_.at(event.host);
  switch (phase_) {
    case Phase::gathering:
      if (host.state != HostState::dialling) return ignore("host failed", "it was given up");
      roster_.become(event.host, HostState::gone);
      forget_error(event.host);
      verdict_.host_errors.emplace_back(event.host, event.error);
      if (elastic()) {
        roster_.could_not_be_reached(event.host, now_);
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
      roster_.become(event.host, HostState::gone);
      tell_host_error(event.host, event.error);
      roster_.could_not_be_reached(event.host, now_);
      return phase_ == Phase::cooling ? try_form() : dial_wanted();
    case Phase::closing:
    case Phase::done:
      roster_.become(event.host, HostState::gone);
      return finish_if_all_gone();
  }
}

void JobMachine::give_up_gathering() {
  for (std::uint32_t i = 0; i < roster_.size(); ++i) {
    if (roster_.at({i}).state != HostState::dialling) continue;
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
  act(ReservePort{world_.generation(), world_.seats().front().host});
}

void JobMachine::on(const PortReserved& event) {
  switch (phase_) {
    case Phase::forming:
      if (event.generation != world_.generation() || world_.begun())
        return ignore("port reserved", "not asked for");
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
      if (event.generation != world_.generation() || world_.begun())
        return ignore("port refused", "not asked for");
      verdict_.why = cause::PortRefused{event.error};
      return disrupt({.kind = Outcome::Kind::port_refused,
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
  begun_generation_ = world_.generation();
  met_ = announced_ = false;
  // Who was lost is replaced, once the world has met.
  if (!survivors_stay_) failed_before_.clear();
  if (!survivors_stay_ || (unfinished_ && unfinished_->planned)) unfinished_.reset();
  had_not_finished_.clear();
  finish_by_.reset();
  broken_.reset();
  std::map<std::pair<HostIndex, std::uint32_t>, WorkerId> living, coming;
  std::vector<WorkerId> dead;  // they have no place any more, and are not counted twice
  for (const auto& [id, worker] : world_.all()) {
    if (worker.member && worker.state == WorkerState::spawned)
      living[{worker.seat.host, worker.seat.slot}] = id;
    else if (worker.may_join())
      coming[{worker.seat.host, worker.seat.slot}] = id;
    else if (!worker.alive())
      dead.push_back(id);
  }
  BeginWorld begin{world_.placement(), {}, static_cast<std::uint32_t>(verdict_.restarts)};
  std::vector<StartWorker> starts;
  const Shares shares(spec_, world_.placement(), [this](HostIndex index) { return share_of(index); });
  for (const auto& seat : world_.seats()) {
    const auto survivor = living.find({seat.host, seat.slot});
    if (survivor != living.end()) {
      world_.admit(survivor->second, seat);
      begin.workers.push_back(survivor->second);
      living.erase(survivor);
      continue;
    }
    if (const auto newcomer = coming.find({seat.host, seat.slot}); newcomer != coming.end()) {
      world_.admit(newcomer->second, seat);
      begin.workers.push_back(newcomer->second);
      continue;
    }
    const auto id = world_.order(seat, now_);
    begin.workers.push_back(id);
    starts.push_back({id, world_.generation(), seat.rank, shares.of(seat)});
  }
  world_.begin(begin.workers);
  act(std::move(begin));
  for (const auto& [place, id] : living) dismiss(id);
  for (const auto id : dead) leave_world(id);
  await_leavers();
  roster_.fits();
  world_ordered_at_ = now_;
  if (survivors_stay_) arm(Deadline::join, now_ + spec_.start_timeout);
  for (const auto& start : starts) act(start);
  if (survivors_stay_) order_newcomers();
  release_unused();
  after_worker_change();
}

void JobMachine::leave_world(WorkerId id) {
  world_.change(id, [](Worker& worker) { worker.member = false; });
  if (world_.at(id).state == WorkerState::finished) world_.forget(id);
}

void JobMachine::on(const WorkerStarted& event) {
  switch (phase_) {
    case Phase::forming:
    case Phase::running:
    case Phase::draining:
    case Phase::cooling: {
      const auto* known = world_.find(event.worker);
      if (known == nullptr || known->state != WorkerState::ordered)
        return ignore("worker started", "it was started before, or its host is lost");
      world_.change(event.worker, [&](Worker& worker) {
        worker.state = WorkerState::spawned;
        worker.pid = event.pid;
        worker.since = now_;
      });
      if (known->newcomer) return watch_newcomers();
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
