// Agents: they start, signal, reap and end the workers of their host, and take no decision.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "tests/sim/simulation.h"

namespace trainrun::sim {

Agent& Simulation::new_agent(HostIndex host, int machine) {
  auto& agent = agents_.emplace_back();
  agent.index = static_cast<int>(agents_.size()) - 1;
  agent.host = host;
  agent.machine = machine;
  return agent;
}

void Simulation::greet(HostIndex host, int dial, int at) {
  timeline_.in(random_.between(milliseconds(2), milliseconds(400)), [this, host, dial, at] {
    auto& machine = machines_[static_cast<std::size_t>(at)];
    const auto current = [this, host, dial] {
      const auto& it = session(host);
      return it.dial == dial && it.state == Session::State::dialling;
    };
    if (!current()) return;
    if (!machine.on || now() < machine.dial_fails_until) {
      return timeline_.in(random_.between(milliseconds(1), seconds(3)), [this, host, current] {
        if (!current()) return;
        session(host).state = Session::State::none;
        tell(core::HostFailed{host, {Code::unreachable, names_.at(host.value) + ": no route to host"}});
      });
    }
    auto& agent = new_agent(host, at);
    agent.up = true;
    session(host).agent = &agent;
    const auto late = std::max(machine.dial_late_until - now(), Duration::zero());
    timeline_.in(late, [this, host, &agent] {
      run_on(agent, [this, host, &agent] {
        up(agent, [this, host] {
          session(host).state = Session::State::ready;
          tell(core::HostReady{host});
        });
      });
    });
  });
}

void Simulation::spawn(Agent& agent, const core::StartWorker& order, std::uint32_t slot) {
  const auto worker = order.worker;
  const bool newcomer = order.generation.value == 0;
  const auto generation = newcomer ? world_.placement.generation : order.generation;
  if (agent.ending) return;
  auto& machine = machines_[static_cast<std::size_t>(agent.machine)];
  if (now() < machine.spawn_fails_until) {
    return up(agent, [this, &agent, worker] {
      from_worker(agent, worker,
                  core::WorkerNotStarted{worker, ExitStatus::not_started(SpawnStage::exec, EAGAIN)});
    });
  }
  if (!agent.closed_here)
    judge_.spawned(agent.machine, generation);
  else
    ++stats_
          .overlaps;  // it was given up while nobody could tell it so; its world is closed to what it starts
  for (const auto& other : agents_) {
    for (const auto& [id, process] : other.processes) {
      if (other.machine != agent.machine || process->slot != slot || !process->alive) continue;
      if (&other != &agent)
        ++stats_.overlaps;  // one that nobody could end in time; its world is closed to it
      else if (other.host == agent.host)
        judge_.fail(
            fmt::format("worker {} starts in the slot where worker {} lives", worker.value, id.value));
    }
  }
  for (const auto& [owner, of] : agent.daemons)
    if (of < generation && !scenario_.comm)
      judge_.fail(fmt::format("worker {} meets a daemon of generation {}", worker.value, of.value));
  auto& process = processes_.emplace_back();
  process.worker = worker;
  process.born = newcomer ? Generation{generation.value + 1} : generation;
  process.generation = order.generation;
  process.host = agent.host;
  process.rank = order.rank;
  process.slot = slot;
  process.agent = agent.index;
  process.ignores_term = random_.percent(scenario_.ignores_term);
  process.daemon = random_.percent(scenario_.daemons);
  process_of_[worker] = &process;
  agent.processes[worker] = &process;
  up(agent, [this, &agent, worker] {
    from_worker(agent, worker, core::WorkerStarted{worker, worker.value});
  });
  boot(process);
}

void Simulation::send_signal(Process& process, int number) {
  if (!process.alive) return;
  if (number == SIGKILL) {
    process.kill_pending = true;
    timeline_.at(process.held_until, [this, &process] { died(process, ExitStatus::killed(SIGKILL, false)); });
    return;
  }
  if (process.ignores_term || process.stuck) return;
  if (process.frozen) {
    process.term_pending = true;
    return;
  }
  const auto status = random_.percent(3)    ? ExitStatus::killed(SIGSEGV, false)
                      : random_.percent(70) ? ExitStatus::killed(number, false)
                      : random_.percent(50) ? ExitStatus::exited(128 + number)
                                            : ExitStatus::exited(random_.percent(50) ? 1 : 0);
  timeline_.in(random_.between(Duration::zero(), milliseconds(50)), [this, &process, status] {
    if (!process.frozen) died(process, status);
  });
}

void Simulation::signal(Agent& agent, int number, bool deep, const std::vector<WorkerId>& workers) {
  for (const auto& [worker, process] : agent.processes)
    if (workers.empty() || std::find(workers.begin(), workers.end(), worker) != workers.end()) {
      if (process->alive) process->signalled.add(number);
      send_signal(*process, number);
    }
  std::erase_if(agent.to_start, [&](WorkerId worker) {
    const bool meant = workers.empty() || std::find(workers.begin(), workers.end(), worker) != workers.end();
    if (meant)
      up(agent, [this, &agent, worker] {
        from_worker(agent, worker,
                    core::WorkerNotStarted{worker, ExitStatus::not_started(SpawnStage::none, ECANCELED)});
      });
    return meant;
  });
  if (deep && number == SIGKILL) agent.daemons.clear();
}

void Simulation::sweep(Agent& agent, const std::vector<WorkerId>& workers) {
  if (workers.empty()) agent.daemons.clear();
  for (const auto worker : workers) agent.daemons.erase(worker);
}

void Simulation::end_all(Agent& agent) {
  if (agent.gone || std::exchange(agent.ending, true)) return all_ended(agent);
  for (const auto& [worker, process] : agent.processes) send_signal(*process, SIGTERM);
  timeline_.in(scenario_.spec.grace, [this, &agent] {
    run_on(agent, [this, &agent] {
      agent.killed = true;
      for (const auto& [worker, process] : agent.processes) send_signal(*process, SIGKILL);
      // Who does not even end by SIGKILL is left to the kernel.
      timeline_.in(seconds(1), [this, &agent] {
        run_on(agent, [this, &agent] {
          for (auto& [worker, process] : agent.processes)
            if (process->alive && process->held_until > now()) process->alive = false;
          all_ended(agent);
        });
      });
    });
  });
  all_ended(agent);
}

void Simulation::all_ended(Agent& agent) {
  if (!agent.ending || agent.gone) return;
  if (std::any_of(agent.processes.begin(), agent.processes.end(),
                  [](const auto& it) { return it.second->alive; }))
    return;
  agent.daemons.clear();
  if (agent.stopping) {
    up(agent, [this, &agent] {
      auto& it = session(agent.host);
      it = {Session::State::none, nullptr, it.dial + 1};
      agent.closed_here = true;
      tell(core::HostStopped{agent.host, 0, agent.killed});
    });
  }
  agent.gone = true;
}

// Its watcher ends all processes at once.
void Simulation::crash(Agent& agent) {
  if (agent.gone) return;
  agent.gone = true;
  agent.daemons.clear();
  for (const auto& [worker, process] : agent.processes) {
    if (process->alive) world_fails(process->generation, process);
    process->alive = false;
  }
  if (agent.cut == 0) break_link(agent, "its agent ended");
}

void Simulation::died(Process& process, ExitStatus status) {
  if (!process.alive) return;
  process.alive = false;
  process.done = status.success();
  if (!process.done) world_fails(process.generation, &process);
  // Peers may notice it before its agent does, on a busy host.
  const auto unnoticed = random_.percent(70) ? Duration::zero() : random_.between({}, milliseconds(60));
  timeline_.in(unnoticed, [this, &process, status] { reaped(process, status); });
}

void Simulation::reaped(Process& process, const ExitStatus& status) {
  auto& agent = agents_[static_cast<std::size_t>(process.agent)];
  const auto exited_at = now();
  run_on(agent, [this, &agent, &process, status, exited_at] {
    if (process.daemon && !agent.ending) agent.daemons[process.worker] = process.generation;
    const auto closes = [this, &agent, &process] {
      up(agent, [this, worker = process.worker] { rendezvous_.closed(worker); });
    };
    const bool door_first = random_.percent(50);
    if (door_first) closes();
    const bool words_came = random_.percent(90);
    up(agent, [this, &agent, &process, status, exited_at, words_came] {
      from_worker(agent, process.worker,
                  core::WorkerExited{process.worker,
                                     status,
                                     exited_at,
                                     milliseconds(1),
                                     {},
                                     {},
                                     process.signalled,
                                     words_came && process.lost_peer});
    });
    if (!door_first) closes();
    const auto output =
        std::max(process.output_until - now(),
                 random_.between(Duration::zero(), milliseconds(random_.percent(80) ? 5 : 1000)));
    timeline_.in(output, [this, &agent, &process] {
      run_on(agent, [this, &agent, &process] {
        up(agent, [this, &agent, worker = process.worker, lost = process.lost_peer] {
          from_worker(agent, worker, core::WorkerFinished{worker, lost});
        });
      });
    });
    all_ended(agent);
  });
}

}  // namespace trainrun::sim
