// The body: performs the brain's actions, as job_action.h words them, on the model of hosts and agents.
#include <fmt/format.h>

#include <algorithm>

#include "tests/sim/simulation.h"

namespace trainrun::sim {

Session& Simulation::session(HostIndex host) {
  while (sessions_.size() <= host.value) sessions_.emplace_back();
  return sessions_[host.value];
}

bool Simulation::listens(HostIndex host) {
  const auto& it = session(host);
  return it.agent != nullptr && (it.state == Session::State::ready || it.state == Session::State::closing);
}

// What an agent says of a worker that the brain does not know there any more is dropped on the way.
void Simulation::from_worker(const Agent& agent, WorkerId worker, const core::JobEvent& event) {
  const auto* seat = machine_.seat_of(worker);
  if (seat != nullptr && seat->host == agent.host) tell(event);
}

void Simulation::perform(const core::AddHost& order) {
  while (names_.size() <= order.host.value) names_.emplace_back();
  names_[order.host.value] = order.as.name;
}

void Simulation::perform(const core::DialHost& order) {
  auto& it = session(order.host);
  it = {Session::State::dialling, nullptr, it.dial + 1};
  greet(order.host, it.dial, machine_of(names_.at(order.host.value)));
  timeline_.in(scenario_.spec.start_timeout, [this, host = order.host, dial = it.dial] {
    auto& late = session(host);
    if (late.dial != dial || late.state != Session::State::dialling) return;
    if (late.agent != nullptr) close_here(*late.agent);
    late.state = Session::State::none;
    late.agent = nullptr;
    tell(core::HostFailed{host, {Code::timeout, "no answer"}});
  });
}

void Simulation::perform(const core::ReservePort& order) {
  if (!listens(order.host)) return;
  auto& agent = *session(order.host).agent;
  down(agent, [this, &agent, generation = order.generation] {
    up(agent, [this, generation] {
      if (std::exchange(port_refused_, false))
        return tell(core::PortRefused{generation, {Code::try_again, "no port"}});
      tell(core::PortReserved{generation});
    });
  });
}

void Simulation::perform(const core::BeginWorld& order) {
  world_ = order;
  rendezvous_.begin(order);
  const bool kept = std::any_of(order.workers.begin(), order.workers.end(),
                                [this](WorkerId worker) { return process_of_.contains(worker); });
  if (kept) ++stats_.in_place;
  world_began_ = now();
}

void Simulation::perform(const core::PlanNewcomers& order) { later_ = order.placement; }

void Simulation::perform(const core::StartWorker& order) {
  const bool newcomer = order.generation.value == 0;
  const auto& seat = (newcomer ? later_ : world_.placement).seats.at(order.rank.value);
  if (!listens(seat.host)) return;
  auto& agent = *session(seat.host).agent;
  down(agent, [this, &agent, order, slot = seat.slot] {
    agent.to_start.insert(order.worker);
    const auto busy = random_.percent(70) ? Duration::zero() : random_.between({}, milliseconds(50));
    timeline_.in(busy, [this, &agent, order, slot] {
      run_on(agent, [this, &agent, order, slot] {
        if (agent.to_start.erase(order.worker) > 0) spawn(agent, order, slot);
      });
    });
  });
}

void Simulation::perform(const core::SignalWorkers& order) {
  for (auto& it : sessions_) {
    if (it.agent == nullptr || it.state != Session::State::ready) continue;
    auto& agent = *it.agent;
    std::vector<WorkerId> here;
    for (const auto worker : order.workers)
      if (const auto* seat = machine_.seat_of(worker); seat != nullptr && seat->host == agent.host)
        here.push_back(worker);
    if (!order.workers.empty() && here.empty()) continue;
    down(agent, [this, &agent, order, here] { signal(agent, order.number, order.deep, here); });
  }
}

void Simulation::perform(const core::Sweep& order) {
  if (!listens(order.host)) return;
  auto& agent = *session(order.host).agent;
  down(agent, [this, &agent, order] {
    const bool some = order.workers.empty()
                          ? !agent.daemons.empty()
                          : std::any_of(order.workers.begin(), order.workers.end(),
                                        [&](WorkerId one) { return agent.daemons.contains(one); });
    const auto time = some ? random_.between(milliseconds(1), scenario_.spec.grace) : milliseconds(1);
    timeline_.in(time, [this, &agent, order] {
      run_on(agent, [this, &agent, order] {
        if (agent.gone) return;
        sweep(agent, order.workers);
        if (!order.generation) return;
        up(agent, [this, &agent, order] { tell(core::HostSwept{agent.host, *order.generation}); });
      });
    });
  });
}

void Simulation::perform(const core::Announce& order) { rendezvous_.announce(order); }

void Simulation::perform(const core::Dismiss& order) { rendezvous_.dismiss(order.worker); }

void Simulation::perform(const core::EndGeneration& order) { rendezvous_.end(order); }

void Simulation::perform(const core::Inspect&) {
  for (auto& it : sessions_) {
    if (it.agent == nullptr || it.state != Session::State::ready) continue;
    auto& agent = *it.agent;
    down(agent, [this, &agent] {
      for (const auto& [worker, process] : agent.processes) {
        const bool stopped = process->frozen;
        up(agent, [this, &agent, worker = worker, stopped] {
          from_worker(agent, worker, core::WorkerInspected{worker, stopped, "evidence"});
        });
      }
      up(agent, [this, &agent] { tell(core::InspectionDone{agent.host}); });
    });
  }
}

void Simulation::perform(const core::StopHost& order) {
  auto& it = session(order.host);
  if (!listens(order.host)) return;
  it.state = Session::State::closing;
  auto& agent = *it.agent;
  down(agent, [this, &agent] {
    agent.stopping = true;
    end_all(agent);
  });
}

void Simulation::perform(const core::AbandonHost& order) {
  auto& it = session(order.host);
  if (it.agent != nullptr) close_here(*it.agent);
  it = {Session::State::none, nullptr, it.dial + 1};
}

}  // namespace trainrun::sim
