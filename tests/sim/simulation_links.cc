// Connections: order within one is kept, between them nothing is. A cut cable holds what was sent, a reset
// loses it, and a silence that lasts ends the connection at both sides, at each in its own time.
#include <fmt/format.h>

#include "tests/sim/simulation.h"

namespace trainrun::sim {
namespace {

// What is at work in the silence of one end.
constexpr Duration tick = Duration(1);

}  // namespace

Duration Simulation::latency(const Agent& agent) {
  auto most = scenario_.latency;
  if (machines_[static_cast<std::size_t>(agent.machine)].slow > 0) most += milliseconds(300);
  return random_.between(scenario_.latency / 4, most);
}

void Simulation::up(Agent& agent, Work work) {
  if (agent.broken) return;
  agent.up_at = std::max(now() + latency(agent), agent.up_at + tick);
  timeline_.at(agent.up_at, [this, &agent, work = std::move(work)] {
    if (agent.broken || agent.closed_here) return;
    if (agent.cut > 0 || !agent.held_up.empty()) return agent.held_up.push_back(work);
    work();
  });
}

void Simulation::down(Agent& agent, Work work) {
  if (agent.broken || agent.closed_here) return;
  agent.down_at = std::max(now() + latency(agent), agent.down_at + tick);
  timeline_.at(agent.down_at, [this, &agent, work = std::move(work)] {
    if (agent.broken) return;
    if (agent.cut > 0 || !agent.held_down.empty()) return agent.held_down.push_back(work);
    run_on(agent, work);
  });
}

void Simulation::run_on(Agent& agent, Work work) {
  if (agent.gone) return;
  if (agent.frozen > 0) return agent.deferred.push_back(std::move(work));
  work();
}

// The agent's end of it: nothing that it had not read yet counts, and all its processes go.
void Simulation::break_link(Agent& agent, const std::string& reason) {
  if (agent.broken) return;
  agent.broken = true;
  agent.held_up.clear();
  agent.held_down.clear();
  timeline_.in(latency(agent), [this, &agent, reason] { launcher_sees_end(agent, reason); });
  timeline_.in(latency(agent), [this, &agent] { run_on(agent, [this, &agent] { end_all(agent); }); });
}

void Simulation::launcher_sees_end(Agent& agent, const std::string& reason) {
  if (agent.closed_here) return;
  auto& it = session(agent.host);
  const auto before = it.state;
  close_here(agent);
  if (it.agent != &agent) return;
  it.state = Session::State::none;
  it.agent = nullptr;
  ++it.dial;
  if (before == Session::State::dialling)
    return tell(core::HostFailed{agent.host, {Code::bootstrap, reason}});
  tell(core::HostLost{agent.host, reason});
}

void Simulation::close_here(Agent& agent) {
  if (agent.closed_here) return;
  agent.closed_here = true;
  for (const auto& [worker, process] : agent.processes) rendezvous_.closed(worker);
  if (agent.broken || agent.cut > 0) return;  // it finds out by itself
  timeline_.in(latency(agent), [this, &agent] {
    if (agent.cut > 0 || agent.broken) return;
    agent.broken = true;
    run_on(agent, [this, &agent] { end_all(agent); });
  });
}

void Simulation::silent(Agent& agent) {
  if (agent.silent++ > 0) return;
  agent.silent_since = now();
  const int silence = ++agent.silence;
  timeline_.in(scenario_.spec.host_timeout, [this, &agent, silence] {
    if (agent.silence == silence && agent.silent > 0) launcher_sees_end(agent, "no answer");
  });
}

void Simulation::heard(Agent& agent) {
  if (--agent.silent == 0) ++agent.silence;
}

void Simulation::cut(Agent& agent) {
  if (agent.cut++ > 0) return;
  silent(agent);
  const int silence = agent.silence;
  const auto notices = scenario_.spec.host_timeout + random_.between(Duration::zero(), seconds(2));
  timeline_.in(notices, [this, &agent, silence] {
    if (agent.silence != silence || agent.cut == 0) return;
    agent.broken = true;
    run_on(agent, [this, &agent] { end_all(agent); });
  });
}

void Simulation::heal(Agent& agent) {
  if (--agent.cut > 0) return;
  heard(agent);
  if (agent.closed_here || agent.broken ||
      agent.gone) {  // the other end is gone: what is sent now is answered by a reset
    agent.broken = true;
    launcher_sees_end(agent, "connection reset");
    return run_on(agent, [this, &agent] { end_all(agent); });
  }
  for (auto& work : std::exchange(agent.held_down, {})) run_on(agent, std::move(work));
  for (auto& work : std::exchange(agent.held_up, {}))
    if (!agent.closed_here) work();
}

void Simulation::freeze(Agent& agent) {
  if (agent.frozen++ == 0) silent(agent);
}

void Simulation::thaw(Agent& agent) {
  if (--agent.frozen > 0) return;
  heard(agent);
  if (agent.gone) return;
  // It sees first that nobody is there any more, or that it heard nothing for too long: what it had not read
  // is not obeyed.
  const bool too_long = now() - agent.silent_since > scenario_.spec.host_timeout;
  if ((agent.closed_here && agent.cut == 0) || too_long) {
    agent.broken = true;
    end_all(agent);
  }
  for (auto& work : std::exchange(agent.deferred, {})) run_on(agent, std::move(work));
}

}  // namespace trainrun::sim
