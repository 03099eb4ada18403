#include "tests/sim/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trainrun::sim {
namespace {

using core::Deadline;

// After the last fault everything that the brain may wait for has its end within this.
constexpr Duration time_limit = seconds(4000);
constexpr int most_steps = 60'000;

core::Placement first_placement(const Scenario& scenario) {
  if (scenario.spec.elastic.enabled()) return {};
  return core::place(scenario.spec, Generation{1}).value_or(core::Placement{});
}

}  // namespace

void Stats::add(const Stats& other) {
  schedules += other.schedules;
  steps += other.steps;
  generations += other.generations;
  restarts += other.restarts;
  in_place += other.in_place;
  faults += other.faults;
  overlaps += other.overlaps;
  for (const auto& [name, count] : other.outcomes) outcomes[name] += count;
  for (const auto& [pair, count] : other.reached) reached[pair] += count;
  digest.add(other.digest);
}

Simulation::Simulation(const Scenario& scenario, const std::vector<bool>& skip_faults, bool trace)
    : scenario_(scenario),
      trace_(trace),
      random_(scenario.seed ^ 0x5151),
      timeline_(scenario.seed ^ 0x7a7a),
      judge_(scenario_),
      machine_(scenario_.spec, first_placement(scenario_)),
      rendezvous_(timeline_, scenario_.horovod,
                  {[this](WorkerId worker, Word word) {
                     auto& process = *process_of_.at(worker);
                     auto& agent = agents_[static_cast<std::size_t>(process.agent)];
                     down(agent, [this, &process, word] { hear(process, word); });
                   },
                   [this](core::JobEvent event) { post(std::move(event)); }}),
      start_(timeline_.now()),
      left_(scenario.work) {
  for (const auto& host : scenario_.spec.hosts.hosts) {
    machines_.push_back({.name = host.name});
    names_.push_back(host.name);
    list_.push_back(host);
  }
  for (std::size_t i = 0; i < scenario_.faults.size(); ++i)
    if (i >= skip_faults.size() || !skip_faults[i]) faults_.push_back(scenario_.faults[i]);
  calm_since_ = start_;
}

std::string Simulation::run() {
  for (const auto& fault : faults_)
    if (fault.step < 0) timeline_.in(fault.at, [this, fault] { apply(fault); });
  if (scenario_.spec.elastic.hang_timeout) watch_silence();
  note_capacity();
  tell(core::Begin{});
  // A while after the end nothing of the job may live, and nothing more may be ordered.
  std::optional<Instant> finish_seen;
  bool timed_out = false;
  while (!timeline_.empty() && judge_.broken().empty()) {
    const auto limit = finish_seen ? *finish_seen + seconds(200) : std::max(calm_since_, start_) + time_limit;
    if (timeline_.next() > limit || steps_ > most_steps) {
      timed_out = !finish_seen;
      break;
    }
    timeline_.step();
    if (finished_ && !finish_seen) finish_seen = now();
  }
  if (judge_.broken().empty()) judge_.over(machine_, now(), calm_since_, timed_out);
  for (const auto& process : processes_) {
    const auto& agent = agents_[static_cast<std::size_t>(process.agent)];
    if (finished_ && process.alive && agent.frozen == 0 && process.held_until < now())
      judge_.fail(fmt::format("worker {} outlived the job", process.worker.value));
  }
  for (const auto& agent : agents_)
    if (finished_ && agent.frozen == 0 && !agent.daemons.empty()) judge_.fail("a daemon outlived the job");
  ++stats_.schedules;
  stats_.steps += static_cast<std::uint64_t>(steps_);
  stats_.generations += world_.placement.generation.value;
  stats_.restarts += static_cast<std::uint64_t>(machine_.restarts());
  ++stats_.outcomes[judge_.outcome() ? std::string(to_string(judge_.outcome()->kind)) : "none"];
  return judge_.broken();
}

void Simulation::trace(const std::string& text) {
  if (!trace_) return;
  const auto since = std::chrono::duration_cast<std::chrono::microseconds>(now() - start_).count();
  fmt::print("{:>14.6f} {}\n", static_cast<double>(since) / 1e6, text);
}

// ---- the brain

void Simulation::tell(const core::JobEvent& event) {
  if (!judge_.broken().empty()) return;
  ++steps_;
  if (trace_) trace(fmt::format("[{}] {}", steps_, print(event)));
  if (covers_) {
    const auto* deadline = std::get_if<core::DeadlinePassed>(&event);
    const std::string name(std::visit([](const auto& it) { return it.record_name; }, event));
    ++stats_
          .reached[{to_string(machine_.phase()),
                    deadline == nullptr ? name : fmt::format("{} {}", name, to_string(deadline->deadline))}];
  }
  judge_.event(event, now());
  const auto actions = machine_.step(event, now());
  if (digests_) stats_.digest.add(actions, machine_);
  for (const auto& action : actions) {
    if (trace_) trace("      " + print(action));
    judge_.action(action, now());
    if (!judge_.broken().empty()) return;
    std::visit([this](const auto& it) { perform(it); }, action);
  }
  judge_.after_step(machine_);
  for (const auto& fault : faults_)
    if (fault.step == steps_) timeline_.in(Duration::zero(), [this, fault] { apply(fault); });
}

void Simulation::perform(const core::Arm& order) {
  const int turn = timers_[order.deadline] = ++timer_turn_;
  timeline_.at(order.at, [this, turn, deadline = order.deadline] {
    if (timers_[deadline] != turn) return;
    timers_[deadline] = 0;
    tell(core::DeadlinePassed{deadline,
                              core::judges_hosts(deadline) ? late() : std::vector<core::LateHost>{}});
  });
}

// Of whom nothing comes now, and of whom something came not long ago: it may be on its way. Every second one
// was slow before, which the body takes for slow until it is lost.
std::vector<core::LateHost> Simulation::late() const {
  std::vector<core::LateHost> all;
  for (const auto& it : sessions_)
    if (it.agent != nullptr && it.agent->silent > 0 && it.agent->silent_since < now() &&
        (it.agent->silence % 2 == 0 || now() - it.agent->silent_since < seconds(5)))
      all.push_back({it.agent->host, it.agent->silent_since});
  return all;
}

void Simulation::perform(const core::Disarm& order) { timers_[order.deadline] = 0; }

void Simulation::perform(const core::Tell&) {}

void Simulation::perform(const core::Finish&) { finished_ = true; }

// ---- hosts that are found

void Simulation::perform(const core::AskForHosts&) {
  if (scenario_.spec.elastic.discovery.kind != DiscoveryKind::none) discover(milliseconds(300));
}

void Simulation::discover(Duration wait) {
  timeline_.in(wait, [this] {
    if (!finished_) tell(core::HostsDiscovered{list_});
  });
}

// ---- signs of life

// A world in which somebody is stopped, stuck or missing makes no progress, and after a while says nothing.
void Simulation::watch_silence() {
  const auto limit = *scenario_.spec.elastic.hang_timeout;
  timeline_.in(limit / 4, [this, limit] {
    if (finished_) return;
    bool works = working_ == world_.placement.generation && working_.value > 0;
    for (const auto worker : world_.workers) {
      const auto it = process_of_.find(worker);
      if (it == process_of_.end() || !it->second->alive || it->second->frozen || it->second->stuck)
        works = false;
    }
    if (works) last_sign_ = now();
    if (works && std::exchange(silence_told_, false)) tell(core::WorldAlive{});
    const auto since = std::max(last_sign_, world_began_);
    if (now() - since > limit) {
      silence_told_ = true;
      tell(core::WorldSilent{now() - since});
    }
    watch_silence();
  });
}

}  // namespace trainrun::sim
