// How a job ends: signals of the user, deadlines, the ladder from TERM to KILL, and the verdict.
#include "launcher/core/job_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

namespace trainrun::core {
namespace {

// After KILL a process can only be held up by the kernel (a dead disk, a dying driver).
constexpr Duration after_kill = seconds(5);
// An agent that was told to stop needs the grace for what workers left behind, and this to say so.
constexpr Duration to_say_goodbye = seconds(3);

}  // namespace

// ---- the user

void JobMachine::on(const UserSignal& event) {
  if (phase_ == Phase::done) return ignore("signal", "all is over");
  ++user_signals_;
  if (user_signals_ == 1) verdict_.signal = event.number;
  if (user_signals_ >= 3) {
    act(Say{"leaving at once; agents end what is left"});
    return leave_at_once();
  }
  switch (phase_) {
    case Phase::gathering:
    case Phase::forming:
    case Phase::running:
      if (!workers_.empty()) {
        act(Say{fmt::format("{}: ending {} ranks (again to kill them)", signal_name(event.number),
                            progress().alive)});
      }
      verdict_.host_errors.clear();
      return end_because(Outcome::Kind::user_signal);
    case Phase::draining:
      if (user_signals_ == 1) {
        act(Say{fmt::format("{}: the ranks are being ended already (again to kill them)",
                            signal_name(event.number))});
        return;
      }
      act(Say{fmt::format("{} again: killing", signal_name(event.number))});
      return kill_now();
    case Phase::closing:
      if (user_signals_ == 1) return;
      return leave_at_once();
    case Phase::done:
      return;
  }
}

void JobMachine::on(const OutputClosed&) {
  switch (phase_) {
    case Phase::gathering:
    case Phase::closing:
    case Phase::done:
      return ignore("output closed", "nothing is running");
    case Phase::forming:
    case Phase::running:
      return end_because(Outcome::Kind::output_closed);
    case Phase::draining:
      return ignore("output closed", "the job is ending");
  }
}

// ---- deadlines

void JobMachine::on(const DeadlinePassed& event) {
  if (armed_.erase(event.deadline) == 0) return ignore("deadline", "it was disarmed");
  switch (event.deadline) {
    case Deadline::start:
      if (phase_ == Phase::gathering) return give_up_gathering();
      return ignore("start deadline", "all hosts are there");
    case Deadline::job:
      switch (phase_) {
        case Phase::gathering:
        case Phase::forming:
        case Phase::running:
          return end_because(Outcome::Kind::timed_out);
        case Phase::draining:
        case Phase::closing:
        case Phase::done:
          return ignore("job deadline", "the job is ending");
      }
      return;
    case Deadline::grace:
      if (phase_ == Phase::draining) return kill_now();
      return ignore("grace", "no worker is left");
    case Deadline::kill: {
      if (phase_ != Phase::draining) return ignore("kill deadline", "no worker is left");
      std::set<HostIndex> stuck;
      for (const auto& [id, worker] : workers_) {
        if (worker.state != WorkerState::finished) stuck.insert(worker.host);
      }
      for (const auto host : stuck) {
        act(Say{
            fmt::format("{}: processes do not end even by SIGKILL (stuck in the kernel?); giving up on them",
                        host_name(host))});
        act(AbandonHost{host});
        hosts_.at(host) = HostState::gone;
        lose_workers_of(host, "a process there did not end even by SIGKILL");
      }
      return after_worker_change();
    }
    case Deadline::stop:
      if (phase_ != Phase::closing) return ignore("stop deadline", "not closing");
      for (const auto& [host, state] : hosts_) {
        if (state == HostState::stopping)
          act(Say{
              fmt::format("{}: the agent did not confirm that all is cleared up there", host_name(host))});
      }
      return leave_at_once();
  }
}

// ---- ending

void JobMachine::end_because(Outcome::Kind kind) {
  if (!workers_.empty()) {
    drain(kind);
    return after_worker_change();
  }
  verdict_.kind = kind;
  verdict_.others.not_started = static_cast<int>(placement_.seats.size());
  close();
}

void JobMachine::drain(Outcome::Kind kind) {
  verdict_.kind = kind;
  drained_at_ = now_;
  enter(Phase::draining);
  // Who waits in the rendezvous learns the cause before the signal comes: a typed error instead of a mute
  // end.
  std::optional<Rank> culprit;
  if (kind == Outcome::Kind::worker_failed) {
    for (const auto& [id, worker] : workers_) {
      if (worker.failure) culprit = worker.rank;
    }
  }
  act(EndGeneration{placement_.generation, culprit, generation_end_reason()});
  act(SignalWorkers{SIGTERM, false});
  act(Arm{Deadline::grace, now_ + spec_.grace});
  armed_.insert(Deadline::grace);
  if (user_signals_ >= 2) kill_now();
}

std::string JobMachine::generation_end_reason() const {
  switch (verdict_.kind) {
    case Outcome::Kind::worker_failed:
      for (const auto& [id, worker] : workers_) {
        if (worker.failure) return worker.failure->status.describe();
      }
      return "a rank failed";
    case Outcome::Kind::host_lost:
      return fmt::format("host {} was lost: {}", host_name(verdict_.host), verdict_.reason);
    case Outcome::Kind::user_signal:
      return "the launcher was asked to end the job by " + signal_name(verdict_.signal);
    case Outcome::Kind::output_closed:
      return "the reader of the job's output went away";
    case Outcome::Kind::timed_out:
      return "the job's time limit passed";
    case Outcome::Kind::success:
    case Outcome::Kind::hosts_failed:
    case Outcome::Kind::port_refused:
      break;
  }
  return "the job ended";
}

void JobMachine::kill_now() {
  if (kill_sent_) return;
  kill_sent_ = true;
  int alive = 0;
  for (auto& [id, worker] : workers_) {
    if (worker.state == WorkerState::ordered || worker.state == WorkerState::spawned) {
      worker.killed = true;
      ++alive;
    }
  }
  if (armed_.erase(Deadline::grace) > 0) act(Disarm{Deadline::grace});
  if (alive > 0) {
    act(Say{fmt::format("{} {} did not end within {} of SIGTERM: SIGKILL", alive,
                        alive == 1 ? "rank" : "ranks", format_duration(now_ - drained_at_))});
  }
  act(SignalWorkers{SIGKILL, true});
  act(Arm{Deadline::kill, now_ + after_kill});
  armed_.insert(Deadline::kill);
}

void JobMachine::after_worker_change() {
  if (workers_.empty()) return;
  if (phase_ == Phase::forming && std::none_of(workers_.begin(), workers_.end(), [](const auto& it) {
        return it.second.state == WorkerState::ordered;
      })) {
    enter(Phase::running);
  }
  if (!all_workers(WorkerState::finished)) return;
  settle_verdict();
  close();
}

void JobMachine::settle_verdict() {
  std::vector<Failure> failures;
  for (const auto& [id, worker] : workers_) {
    if (worker.failure) failures.push_back(*worker.failure);
  }
  if (verdict_.kind == Outcome::Kind::worker_failed) verdict_.cause = failures[first_cause(failures)];
  auto& tally = verdict_.others;
  for (const auto& [id, worker] : workers_) {
    if (verdict_.cause && verdict_.cause->worker == id) continue;
    if (worker.status.kind == ExitStatus::Kind::lost) {
      ++tally.lost;
    } else if (worker.status.kind == ExitStatus::Kind::not_started) {
      ++tally.not_started;
    } else if (worker.failure) {
      ++tally.failed;
    } else if (worker.killed) {
      ++tally.killed;
    } else {
      ++(worker.status.success() ? tally.finished : tally.terminated);
    }
  }
}

void JobMachine::close() {
  for (const auto deadline : std::set<Deadline>(armed_)) act(Disarm{deadline});
  armed_.clear();
  verdict_.ran = now_ - began_;
  enter(Phase::closing);
  for (auto& [host, state] : hosts_) {
    switch (state) {
      case HostState::dialling:
        act(AbandonHost{host});
        state = HostState::gone;
        break;
      case HostState::ready:
        act(StopHost{host});
        state = HostState::stopping;
        break;
      case HostState::stopping:
      case HostState::gone:
        break;
    }
  }
  act(Arm{Deadline::stop, now_ + spec_.grace + to_say_goodbye});
  armed_.insert(Deadline::stop);
  finish_if_all_gone();
}

void JobMachine::on(const HostStopped& event) {
  switch (phase_) {
    case Phase::closing:
      hosts_.at(event.host) = HostState::gone;
      verdict_.leftovers += event.leftovers;
      if (event.leftovers > 0) {
        act(Say{fmt::format("{}: ended {} {} that outlived {} worker{}", host_name(event.host),
                            event.leftovers, event.leftovers == 1 ? "process" : "processes",
                            event.leftovers == 1 ? "its" : "their",
                            event.killed ? " (SIGKILL was needed)" : "")});
      }
      return finish_if_all_gone();
    case Phase::gathering:
    case Phase::forming:
    case Phase::running:
    case Phase::draining:
    case Phase::done:
      return ignore("host stopped", "it was not asked to");
  }
}

void JobMachine::finish_if_all_gone() {
  if (phase_ != Phase::closing) return;
  if (std::any_of(hosts_.begin(), hosts_.end(), [](const auto& it) { return it.second != HostState::gone; }))
    return;
  if (armed_.erase(Deadline::stop) > 0) act(Disarm{Deadline::stop});
  enter(Phase::done);
  verdict_.exit_code = exit_code_of(verdict_);
  act(Finish{verdict_});
}

void JobMachine::leave_at_once() {
  if (phase_ != Phase::closing) {
    verdict_.kind = Outcome::Kind::user_signal;
    for (auto& [id, worker] : workers_) {
      if (worker.state != WorkerState::finished)
        worker.status = ExitStatus::lost("left behind for its agent to end");
      worker.state = WorkerState::finished;
    }
    settle_verdict();
    for (const auto deadline : std::set<Deadline>(armed_)) act(Disarm{deadline});
    armed_.clear();
    verdict_.ran = now_ - began_;
    enter(Phase::closing);
  }
  for (auto& [host, state] : hosts_) {
    if (state == HostState::gone) continue;
    act(AbandonHost{host});
    state = HostState::gone;
  }
  finish_if_all_gone();
}

std::string JobMachine::broken_invariant() const {
  if (phase_ == Phase::draining && !armed_.contains(Deadline::grace) && !armed_.contains(Deadline::kill))
    return "draining without a deadline";
  if (phase_ == Phase::closing && !armed_.contains(Deadline::stop)) return "closing without a deadline";
  if (phase_ == Phase::gathering && began_ != Instant{} && !armed_.contains(Deadline::start))
    return "gathering without a deadline";
  std::set<Rank> live;
  for (const auto& [id, worker] : workers_) {
    if (worker.state == WorkerState::finished) continue;
    if (!live.insert(worker.rank).second) return "two live workers of one rank";
    if (hosts_.at(worker.host) != HostState::ready) return "a live worker on a host that is not there";
  }
  if ((phase_ == Phase::closing || phase_ == Phase::done) && !live.empty())
    return "a live worker after the end";
  return {};
}

}  // namespace trainrun::core
