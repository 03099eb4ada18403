// What goes wrong: each fault hits what there is when it comes.
#include <algorithm>
#include <csignal>

#include "tests/sim/simulation.h"

namespace trainrun::sim {

std::vector<Agent*> Simulation::live_agents() {
  std::vector<Agent*> out;
  for (auto& agent : agents_)
    if (!agent.gone && machines_[static_cast<std::size_t>(agent.machine)].on) out.push_back(&agent);
  return out;
}

std::vector<Process*> Simulation::live_processes() {
  std::vector<Process*> out;
  for (auto& process : processes_)
    if (process.alive) out.push_back(&process);
  return out;
}

// "h1.lan" is another name of h1.
int Simulation::machine_of(const std::string& name) {
  const auto plain = name.substr(0, name.find('.'));
  for (std::size_t i = 0; i < machines_.size(); ++i)
    if (machines_[i].name == plain) return static_cast<int>(i);
  machines_.push_back({.name = plain});
  return static_cast<int>(machines_.size()) - 1;
}

void Simulation::power(int at, bool on) {
  auto& machine = machines_[static_cast<std::size_t>(at)];
  if (machine.on == on) return;
  machine.on = on;
  note_capacity();
  for (auto& agent : agents_) {
    if (agent.machine != at) continue;
    if (on) {
      // Whoever still sends to the old connection is told that there is none.
      timeline_.in(latency(agent), [this, &agent] {
        agent.broken = true;
        launcher_sees_end(agent, "connection reset");
      });
      continue;
    }
    for (const auto& [worker, process] : agent.processes) {
      if (process->alive) world_fails(process->generation, process);
      process->alive = false;
    }
    agent.daemons.clear();
    if (agent.gone) continue;
    agent.gone = true;
    ++agent.cut;  // for good
    silent(agent);
  }
}

// The hosts that the brain may count upon, by the list and by the machines' health.
void Simulation::note_capacity() {
  int slots = -stopped_slots_;
  std::set<std::string> counted;
  for (const auto& host : list_) {
    const auto& machine = machines_[static_cast<std::size_t>(machine_of(host.name))];
    if (!counted.insert(host.name).second) continue;  // the first of two counts
    if (removed_.contains(host.name) || now() < machine.left_until) continue;
    if (machine.on && now() >= machine.dial_fails_until && now() >= machine.dial_late_until)
      slots += host.slots;
  }
  judge_.capacity(slots >= scenario_.least(), now());
}

void Simulation::apply(const Fault& fault) {
  if (finished_) return;
  using Kind = Fault::Kind;
  ++stats_.faults;
  trace("fault: " + describe(fault));
  calm_since_ = std::max(calm_since_, now() + fault.span);
  const auto until = now() + fault.span;
  const auto agents = live_agents();
  const auto processes = live_processes();
  auto* agent = agents.empty() ? nullptr : agents[fault.pick % agents.size()];
  auto* process = processes.empty() ? nullptr : processes[fault.pick % processes.size()];
  const int at = static_cast<int>(fault.pick % machines_.size());
  auto& machine = machines_[static_cast<std::size_t>(at)];
  const Rank rank{fault.pick % static_cast<std::uint32_t>(std::max<std::size_t>(1, world_.workers.size()))};
  switch (fault.kind) {
    case Kind::link_reset:
      if (agent != nullptr && agent->cut == 0) break_link(*agent, "the connection was closed");
      return;
    case Kind::link_cut:
      if (agent == nullptr) return;
      cut(*agent);
      return timeline_.at(until, [this, agent] { heal(*agent); });
    case Kind::agent_crash:
      if (agent != nullptr) crash(*agent);
      return;
    case Kind::agent_freeze:
      if (agent == nullptr) return;
      freeze(*agent);
      return timeline_.at(until, [this, agent] { thaw(*agent); });
    case Kind::host_power:
      power(at, false);
      return timeline_.at(until, [this, at] { power(at, true); });
    case Kind::host_slow:
      ++machine.slow;
      return timeline_.at(until, [&machine] { --machine.slow; });
    case Kind::worker_exit: {
      if (process == nullptr) return;
      const std::vector<ExitStatus> some{ExitStatus::exited(1),
                                         ExitStatus::exited(0),
                                         ExitStatus::exited(3),
                                         ExitStatus::killed(SIGKILL, false),
                                         ExitStatus::killed(SIGSEGV, true),
                                         ExitStatus::killed(SIGTERM, false),
                                         ExitStatus::exited(134)};
      const auto status = some[fault.more % some.size()];
      if (status.success() && process->failing) return;
      if (status.success() || random_.percent(75)) return died(*process, status);
      // It closes its connections first, and has other things to do before it ends.
      process->failing = true;
      world_fails(process->generation, process);
      return later(*process, random_.between(milliseconds(1), milliseconds(1500)),
                   [this, process, status] { died(*process, status); });
    }
    case Kind::worker_freeze:
      if (process == nullptr) return;
      stop_process(*process);
      return timeline_.at(until, [this, process] { continue_process(*process); });
    case Kind::worker_stuck:
      // Without --hang-timeout and without a world that notices nobody could ever tell.
      if (process != nullptr && scenario_.spec.elastic.hang_timeout) process->stuck = true;
      return;
    case Kind::worker_daemon:
      if (process != nullptr) process->daemon = true;
      return;
    case Kind::worker_held:
      if (process != nullptr) process->held_until = until;
      return;
    case Kind::output_held:
      if (process != nullptr) process->output_until = until;
      return;
    case Kind::spawn_fails:
      machine.spawn_fails_until = until;
      return;
    case Kind::dial_fails:
      machine.dial_fails_until = until;
      note_capacity();
      return timeline_.at(until, [this] { note_capacity(); });
    case Kind::dial_late:
      machine.dial_late_until = until;
      note_capacity();
      return timeline_.at(until, [this] { note_capacity(); });
    case Kind::port_refused:
      port_refused_ = true;
      return;
    case Kind::hosts_change:
      return change_hosts(fault);
    case Kind::hosts_vanish: {
      if (scenario_.spec.elastic.discovery.kind == DiscoveryKind::none) return;
      const auto before = list_;
      list_.clear();
      note_capacity();
      discover(milliseconds(1));
      return timeline_.at(until, [this, before] {
        list_ = before;
        note_capacity();
        discover(milliseconds(1));
      });
    }
    case Kind::host_leaves:
      if (agent == nullptr) return;
      return run_on(*agent, [this, agent] {
        up(*agent, [this, agent] {
          if (session(agent->host).state != Session::State::ready) return;
          // It is asked again after the longest rest; until then it may still serve a world that nobody else
          // can.
          auto& from = machines_[static_cast<std::size_t>(agent->machine)];
          from.left_until =
              now() + scenario_.spec.elastic.cooldown_max + scenario_.spec.grace * 2 + seconds(60);
          note_capacity();
          timeline_.at(from.left_until, [this] { note_capacity(); });
          tell(core::HostLeaving{agent->host, "SIGTERM"});
          // It does not stay longer than its workers may, whatever becomes of the world.
          timeline_.at(now() + scenario_.spec.grace + seconds(2), [this, agent] { crash(*agent); });
        });
      });
    case Kind::user_signal:
      return tell(core::UserSignal{fault.more % 2 == 0 ? SIGINT : SIGTERM});
    case Kind::output_closed:
      return tell(core::OutputClosed{});
    case Kind::ctl_remove_host: {
      removed_.insert(machine.name);
      note_capacity();
      return tell(core::RemoveHost{machine.name});
    }
    case Kind::ctl_add_host: {
      Host host{.name = machine.name, .slots = 1 + static_cast<int>(fault.more % 3), .slots_given = true};
      std::erase_if(list_, [&](const Host& other) { return other.name == host.name; });
      list_.push_back(host);
      removed_.erase(host.name);
      note_capacity();
      return tell(core::AddHosts{{host}});
    }
    case Kind::ctl_restart_world:
      return tell(core::RestartWorld{});
    case Kind::ctl_restart_worker:
      return tell(core::RestartWorker{rank});
    case Kind::ctl_stop_worker:
      ++stopped_slots_;
      note_capacity();
      return tell(core::StopWorker{rank});
  }
}

void Simulation::change_hosts(const Fault& fault) {
  if (scenario_.spec.elastic.discovery.kind == DiscoveryKind::none) return;
  const auto before = list_;
  Random random(fault.more);
  switch (random.below(7)) {
    case 0:
    case 1:
      if (!list_.empty()) list_.erase(list_.begin() + random.below(static_cast<std::uint32_t>(list_.size())));
      break;
    case 2:
      list_.push_back({.name = "h" + std::to_string(random.below(8)),
                       .slots = random.from_to(1, 3),
                       .slots_given = true});
      break;  // perhaps one that is there: a duplicate
    case 3:
      if (!list_.empty())
        list_[random.below(static_cast<std::uint32_t>(list_.size()))].slots = random.from_to(1, 4);
      break;
    case 4:
      std::reverse(list_.begin(), list_.end());
      break;
    case 5:
      if (!list_.empty()) list_[random.below(static_cast<std::uint32_t>(list_.size()))].name += ".lan";
      break;
    default:
      list_.push_back({.name = "x" + std::to_string(random.below(3)),
                       .slots = random.from_to(1, 3),
                       .slots_given = true});
      break;
  }
  note_capacity();
  discover(milliseconds(1));
  if (random.percent(40)) {  // a flap
    timeline_.in(fault.span, [this, before] {
      list_ = before;
      note_capacity();
      discover(milliseconds(1));
    });
  }
}

}  // namespace trainrun::sim
