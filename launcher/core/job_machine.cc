#include "launcher/core/job_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "launcher/base/check.h"
#include "launcher/base/strings.h"

namespace trainrun::core {

std::string to_string(JobMachine::Phase phase) {
  using Phase = JobMachine::Phase;
  switch (phase) {
    case Phase::gathering:
      return "gathering";
    case Phase::forming:
      return "forming";
    case Phase::running:
      return "running";
    case Phase::draining:
      return "draining";
    case Phase::closing:
      return "closing";
    case Phase::done:
      return "done";
  }
  return {};
}

JobMachine::JobMachine(const JobSpec& spec, const Placement& placement) : spec_(spec), placement_(placement) {
  for (const auto& seat : placement.seats) hosts_.emplace(seat.host, HostState::dialling);
  verdict_.generation = placement.generation;
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
  p.hosts = static_cast<int>(hosts_.size());
  p.ranks = static_cast<int>(placement_.seats.size());
  for (const auto& [host, state] : hosts_) p.hosts_ready += state == HostState::ready ? 1 : 0;
  for (const auto& [id, worker] : workers_) {
    p.started += worker.state != WorkerState::ordered ? 1 : 0;
    p.alive += worker.state == WorkerState::spawned ? 1 : 0;
    p.finished += worker.state == WorkerState::finished ? 1 : 0;
  }
  return p;
}

const Seat* JobMachine::seat_of(WorkerId worker) const {
  const auto it = workers_.find(worker);
  return it == workers_.end() ? nullptr : &placement_.seats[it->second.rank.value];
}

void JobMachine::enter(Phase next) {
  act(Say{fmt::format("job: {} -> {}", to_string(phase_), to_string(next)), true});
  phase_ = next;
}

void JobMachine::ignore(const char* what, const char* why) {
  act(Say{fmt::format("ignored: {} ({})", what, why), true});
}

std::string JobMachine::host_name(HostIndex host) const { return spec_.hosts.hosts[host.value].name; }

bool JobMachine::all_workers(WorkerState state) const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [state](const auto& it) { return it.second.state == state; });
}

// ---- gathering

void JobMachine::on(const Begin&) {
  began_ = now_;
  act(Arm{Deadline::start, now_ + spec_.start_timeout});
  armed_.insert(Deadline::start);
  if (spec_.timeout) {
    act(Arm{Deadline::job, now_ + *spec_.timeout});
    armed_.insert(Deadline::job);
  }
}

void JobMachine::on(const HostReady& event) {
  switch (phase_) {
    case Phase::gathering: {
      auto& state = hosts_.at(event.host);
      if (state != HostState::dialling) return ignore("host ready", "it was given up");
      state = HostState::ready;
      const bool some_failed = !verdict_.host_errors.empty();
      const bool all_known = std::none_of(hosts_.begin(), hosts_.end(),
                                          [](const auto& it) { return it.second == HostState::dialling; });
      if (all_known) some_failed ? give_up_gathering() : form();
      return;
    }
    case Phase::forming:
    case Phase::running:
      return ignore("host ready", "every host was ready before");
    case Phase::draining:
    case Phase::closing:
    case Phase::done:
      if (hosts_.at(event.host) == HostState::ready || hosts_.at(event.host) == HostState::stopping) {
        return ignore("host ready", "it was ready before");
      }
      // An agent that comes up while we end must not live on: its Link is closed at once.
      act(AbandonHost{event.host});
      hosts_.at(event.host) = HostState::gone;
      return;
  }
}

void JobMachine::on(const HostFailed& event) {
  switch (phase_) {
    case Phase::gathering:
      if (hosts_.at(event.host) != HostState::dialling) return ignore("host failed", "it was given up");
      hosts_.at(event.host) = HostState::gone;
      verdict_.host_errors.emplace_back(event.host, event.error);
      // All failing hosts belong in one report: the others are waited for until the start deadline.
      if (std::none_of(hosts_.begin(), hosts_.end(),
                       [](const auto& it) { return it.second == HostState::dialling; }))
        give_up_gathering();
      return;
    case Phase::forming:
    case Phase::running:
    case Phase::draining:
      return ignore("host failed", "it was ready before; a lost host is told otherwise");
    case Phase::closing:
    case Phase::done:
      hosts_.at(event.host) = HostState::gone;
      return finish_if_all_gone();
  }
}

void JobMachine::give_up_gathering() {
  for (auto& [host, state] : hosts_) {
    if (state != HostState::dialling) continue;
    verdict_.host_errors.emplace_back(
        host,
        Error{Code::unreachable,
              fmt::format("{}: no answer within {}", host_name(host), format_duration(spec_.start_timeout)),
              "see whether the host is up and its sshd is not overloaded, or give --start-timeout more"});
    act(AbandonHost{host});
    state = HostState::gone;
  }
  std::sort(verdict_.host_errors.begin(), verdict_.host_errors.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  end_because(Outcome::Kind::hosts_failed);
}

// ---- forming

void JobMachine::form() {
  enter(Phase::forming);
  act(ReservePort{placement_.generation, placement_.seats.front().host});
}

void JobMachine::on(const PortReserved& event) {
  switch (phase_) {
    case Phase::forming:
      if (event.generation != placement_.generation || !workers_.empty())
        return ignore("port reserved", "not asked for");
      return start_workers();
    case Phase::gathering:
    case Phase::running:
      return ignore("port reserved", "not asked for");
    case Phase::draining:
    case Phase::closing:
    case Phase::done:
      return ignore("port reserved", "the job is ending");
  }
}

void JobMachine::on(const PortRefused& event) {
  switch (phase_) {
    case Phase::forming:
      if (!workers_.empty()) return ignore("port refused", "not asked for");
      verdict_.reason = event.error.message;
      verdict_.hint = event.error.hint;
      return end_because(Outcome::Kind::port_refused);
    case Phase::gathering:
    case Phase::running:
      return ignore("port refused", "not asked for");
    case Phase::draining:
    case Phase::closing:
    case Phase::done:
      return ignore("port refused", "the job is ending");
  }
}

void JobMachine::start_workers() {
  // One program instance a rank; ids are never reused, so a message about an old one can never be taken for a
  // new one.
  for (const auto& seat : placement_.seats) {
    const WorkerId id{seat.rank.value + 1};
    Worker worker;
    worker.rank = seat.rank;
    worker.host = seat.host;
    workers_.emplace(id, worker);
    act(StartWorker{id, placement_.generation, seat.rank});
  }
}

void JobMachine::on(const WorkerStarted& event) {
  switch (phase_) {
    case Phase::forming:
    case Phase::running:
    case Phase::draining: {
      auto& worker = workers_.at(event.worker);
      if (worker.state != WorkerState::ordered)
        return ignore("worker started", "it was started before, or its host is lost");
      worker.state = WorkerState::spawned;
      worker.pid = event.pid;
      if (phase_ == Phase::forming) after_worker_change();
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
