// Workers and hosts that fail: the half of the brain that hears of deaths.
#include "launcher/core/job_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

namespace trainrun::core {
namespace {

// 128+signal is how a shell reports that its child was killed.
bool by_signal(const ExitStatus& status, int number) {
  return (status.kind == ExitStatus::Kind::killed && status.number == number) ||
         (status.kind == ExitStatus::Kind::exited && status.number == 128 + number);
}

}  // namespace

// ---- failures

void JobMachine::on(const WorkerNotStarted& event) {
  switch (phase_) {
    case Phase::forming:
    case Phase::running:
    case Phase::draining: {
      auto& worker = workers_.at(event.worker);
      if (worker.state != WorkerState::ordered) return ignore("worker not started", "its end is known");
      worker.state = WorkerState::finished;
      worker.status = event.status;
      worker.failure = Failure{event.worker, worker.rank, worker.host, 0, event.status, now_};
      if (phase_ != Phase::draining) return end_because(Outcome::Kind::worker_failed);
      return after_worker_change();
    }
    case Phase::gathering:
      return ignore("worker not started", "none was ordered");
    case Phase::closing:
    case Phase::done:
      return ignore("worker not started", "it was given up");
  }
}

void JobMachine::on(const WorkerExited& event) {
  switch (phase_) {
    case Phase::forming:
    case Phase::running:
    case Phase::draining: {
      auto& worker = workers_.at(event.worker);
      if (worker.state != WorkerState::spawned) return ignore("worker exited", "its end is known");
      worker.state = WorkerState::exited;
      worker.status = event.status;
      const bool by_us = phase_ == Phase::draining && ended_by_us(event);
      if (!event.status.success() && !by_us) {
        worker.failure = Failure{event.worker, worker.rank, worker.host, worker.pid,         event.status,
                                 event.at,     event.error, false,       event.out_of_memory};
        if (phase_ != Phase::draining) drain(Outcome::Kind::worker_failed);
      }
      return;
    }
    case Phase::gathering:
      return ignore("worker exited", "none was ordered");
    case Phase::closing:
    case Phase::done:
      return ignore("worker exited", "it was given up");
  }
}

// Clocks of hosts agree only within `error`. A death by the very signal that we send is ours unless it was
// surely earlier; any other end is the worker's own unless it was surely later.
bool JobMachine::ended_by_us(const WorkerExited& event) const {
  if (by_signal(event.status, SIGTERM) || (kill_sent_ && by_signal(event.status, SIGKILL))) {
    return event.at + event.error >= drained_at_;
  }
  return event.at - event.error > drained_at_;
}

void JobMachine::on(const WorkerFinished& event) {
  switch (phase_) {
    case Phase::forming:
    case Phase::running:
    case Phase::draining: {
      auto& worker = workers_.at(event.worker);
      if (worker.state != WorkerState::exited) return ignore("worker finished", "its end is known");
      worker.state = WorkerState::finished;
      if (worker.failure) worker.failure->lost_peer = event.lost_peer;
      return after_worker_change();
    }
    case Phase::gathering:
      return ignore("worker finished", "none was ordered");
    case Phase::closing:
    case Phase::done:
      return ignore("worker finished", "it was given up");
  }
}

void JobMachine::on(const HostLost& event) {
  auto& state = hosts_.at(event.host);
  if (state == HostState::gone) return ignore("host lost", "it was given up");
  const auto before = state;
  state = HostState::gone;
  switch (phase_) {
    case Phase::gathering:
      verdict_.host_errors.emplace_back(
          event.host, Error{Code::lost, fmt::format("{}: {}", host_name(event.host), event.reason),
                            "see what ended the agent there"});
      if (std::none_of(hosts_.begin(), hosts_.end(),
                       [](const auto& it) { return it.second == HostState::dialling; }))
        give_up_gathering();
      return;
    case Phase::forming:
    case Phase::running:
      verdict_.host = event.host;
      verdict_.reason = event.reason;
      lose_workers_of(event.host, event.reason);
      return end_because(Outcome::Kind::host_lost);
    case Phase::draining:
      lose_workers_of(event.host, event.reason);
      return after_worker_change();
    case Phase::closing:
      if (before == HostState::stopping) {
        act(Say{fmt::format("{}: {} while clearing up; its agent ends what is left there",
                            host_name(event.host), event.reason)});
      }
      return finish_if_all_gone();
    case Phase::done:
      return ignore("host lost", "all is over");
  }
}

void JobMachine::lose_workers_of(HostIndex host, const std::string& reason) {
  for (auto& [id, worker] : workers_) {
    if (worker.host != host || worker.state == WorkerState::finished) continue;
    if (worker.state != WorkerState::exited) worker.status = ExitStatus::lost(reason);
    worker.state = WorkerState::finished;
  }
}

}  // namespace trainrun::core
