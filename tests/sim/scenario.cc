#include "tests/sim/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tests/sim/random.h"

namespace trainrun::sim {
namespace {

constexpr std::array names{"link_reset",         "link_cut",        "agent_crash",  "agent_freeze",
                           "host_power",         "host_slow",       "worker_exit",  "worker_freeze",
                           "worker_stuck",       "worker_daemon",   "worker_held",  "output_held",
                           "spawn_fails",        "dial_fails",      "dial_late",    "port_refused",
                           "hosts_change",       "hosts_vanish",    "host_leaves",  "user_signal",
                           "output_closed",      "ctl_remove_host", "ctl_add_host", "ctl_restart_world",
                           "ctl_restart_worker", "ctl_stop_worker"};

// How often each comes, in the order of the kinds.
constexpr std::array<std::uint32_t, Fault::kinds> weights{8, 8, 8, 8,  8, 4, 30, 6, 6, 3, 1, 3, 5,
                                                          4, 5, 1, 10, 3, 5, 1,  1, 3, 4, 2, 3, 2};

static_assert(names.size() == Fault::kinds);
static_assert(std::all_of(weights.begin(), weights.end(), [](auto weight) { return weight > 0; }));

using Weights = std::array<std::uint32_t, weights.size()>;

// Each schedule plays some kinds alone (swarm testing): what one kind ends early is reached where it is off,
// and rare ones meet each other.
Weights swarm(Random& random) {
  auto some = weights;
  if (random.percent(40)) return some;
  for (auto& weight : some) weight = random.percent(50) ? weight + 5 : 0;
  if (std::all_of(some.begin(), some.end(), [](auto weight) { return weight == 0; })) return weights;
  return some;
}

Fault::Kind some_kind(Random& random, const Weights& some) {
  std::uint32_t sum = 0;
  for (const auto weight : some) sum += weight;
  auto at = random.below(sum);
  for (std::size_t kind = 0; kind < some.size(); ++kind) {
    if (at < some[kind]) return static_cast<Fault::Kind>(kind);
    at -= some[kind];
  }
  return Fault::Kind::worker_exit;
}

Duration some_span(Random& random) {
  const auto most =
      random.pick(std::vector<Duration>{milliseconds(50), seconds(2), seconds(15), seconds(60)});
  return random.between(milliseconds(1), most);
}

void add_faults(Scenario& scenario, Random& random) {
  const int count = random.percent(4) ? 0 : random.from_to(1, random.percent(30) ? 30 : 8);
  int step = random.from_to(1, 40);
  const auto kinds = swarm(random);
  for (int i = 0; i < count; ++i) {
    Fault fault;
    fault.kind = some_kind(random, kinds);
    // Most come a few events after the one before: into the middle of what follows from it.
    if (random.percent(80)) {
      step += random.from_to(1, random.percent(70) ? 12 : 60);
      fault.step = step;
    } else {
      fault.at = random.between(Duration::zero(), scenario.faults_until);
    }
    // A host that goes while the program is finishing.
    const bool goes = fault.kind == Fault::Kind::host_leaves || fault.kind == Fault::Kind::ctl_remove_host;
    if (goes && random.percent(20)) {
      fault.step = -1;
      fault.at = scenario.work + random.between(Duration::zero(), milliseconds(100) + scenario.finish_spread);
    }
    fault.span = some_span(random);
    if (fault.kind == Fault::Kind::output_held && random.percent(30))  // a reader who has gone to lunch
      fault.span = random.between(seconds(60), seconds(600));
    fault.pick = static_cast<std::uint32_t>(random.next());
    fault.more = static_cast<std::uint32_t>(random.next());
    if (fault.kind == Fault::Kind::worker_exit && random.percent(10)) {
      auto next = fault;  // a host that goes while the next world is being formed
      next.kind = random.percent(50) ? Fault::Kind::host_leaves : Fault::Kind::ctl_remove_host;
      next.pick = static_cast<std::uint32_t>(random.next());
      if (next.step >= 0) next.step = step += random.from_to(1, 4);
      next.at += random.between(Duration::zero(), milliseconds(50));
      scenario.faults.push_back(next);
    }
    const bool ends = fault.kind == Fault::Kind::user_signal || fault.kind == Fault::Kind::output_closed;
    scenario.faults.push_back(fault);
    for (int again = 0; ends && again < 3 && random.percent(40); ++again) {
      fault.step = fault.step < 0 ? fault.step : ++step;
      scenario.faults.push_back(fault);
    }
  }
}

}  // namespace

std::string describe(const Fault& fault) {
  const auto when = fault.step >= 0 ? fmt::format("step {}", fault.step) : format_duration(fault.at);
  return fmt::format("{} at {} for {} (pick {}, {})", names[static_cast<std::size_t>(fault.kind)], when,
                     format_duration(fault.span), fault.pick % 1000, fault.more % 1000);
}

std::string Scenario::describe() const {
  const auto& e = spec.elastic;
  std::string hosts;
  for (const auto& host : spec.hosts.hosts) hosts += fmt::format(" {}:{}", host.name, host.slots);
  return fmt::format(
      "policy {}, np {} ({}..{}) + {} spares on{}; {}{}{}; {} restarts in {}; grace {}, host-timeout {}, "
      "hang {}",
      static_cast<int>(e.on_failure), spec.world_size(), least(), most(), e.spares, hosts,
      comm ? "comm" : "plain",
      horovod           ? ", Horovod's"
      : program_elastic ? ", elastic"
                        : "",
      e.discovery.kind == DiscoveryKind::none ? "" : ", discovery", e.limit.count,
      format_duration(e.limit.window), format_duration(spec.grace), format_duration(spec.host_timeout),
      e.hang_timeout ? format_duration(*e.hang_timeout) : "off");
}

std::uint64_t schedule_seed(std::uint64_t seed, std::uint64_t number) {
  return Random(seed * 0x2545f4914f6cdd1du + number).next();
}

Scenario scenario_of(std::uint64_t seed) {
  Random random(seed);
  Scenario scenario;
  scenario.seed = seed;
  auto& spec = scenario.spec;
  auto& elastic = spec.elastic;
  int slots = 0;
  for (int i = 0, hosts = random.from_to(1, 5); i < hosts; ++i) {
    spec.hosts.hosts.push_back(
        {.name = "h" + std::to_string(i), .slots = random.from_to(1, 3), .slots_given = true});
    slots += spec.hosts.hosts.back().slots;
  }
  elastic.on_failure = random.pick(std::vector{OnFailure::restart_world, OnFailure::restart_world,
                                               OnFailure::in_place, OnFailure::in_place, OnFailure::automatic,
                                               OnFailure::automatic, OnFailure::abort});
  const int np = random.percent(50) ? slots : random.from_to(1, slots);
  spec.programs.push_back({{"./train"}, np, "/w", {}});
  if (random.percent(70)) elastic.min_np = random.from_to(1, np);
  if (random.percent(50)) elastic.max_np = np + random.from_to(0, 4);
  if (random.percent(25)) elastic.spares = random.from_to(1, 2);
  if (random.percent(50) && elastic.enabled()) elastic.discovery.kind = DiscoveryKind::script;
  if (random.percent(10)) spec.map_by = MapBy::host;
  if (random.percent(10)) spec.oversubscribe = true;
  elastic.limit.count = random.percent(75) ? 1000 : random.from_to(0, 4);
  elastic.limit.window = random.percent(50) ? seconds(3600) : seconds(random.from_to(5, 120));
  elastic.timeout = seconds(random.from_to(60, 400));
  elastic.cooldown_min = seconds(random.from_to(1, random.percent(20) ? 400 : 20));
  elastic.cooldown_max = elastic.cooldown_min + seconds(random.from_to(0, 100));
  elastic.settle = milliseconds(random.from_to(0, 3000));
  if (random.percent(50)) elastic.hang_timeout = seconds(random.from_to(5, 30));
  spec.grace = milliseconds(random.from_to(50, 10'000));
  spec.host_timeout = milliseconds(random.from_to(500, 10'000));
  spec.start_timeout = seconds(random.from_to(5, 60));
  if (random.percent(3)) spec.timeout = seconds(random.from_to(1, 200));
  scenario.comm = random.percent(elastic.on_failure == OnFailure::restart_world ? 25 : 75);
  scenario.program_elastic = scenario.comm && random.percent(90);
  scenario.collateral = random.pick(std::vector<std::uint32_t>{0, 50, 100});
  scenario.ignores_term = random.pick(std::vector<std::uint32_t>{0, 0, 30, 100});
  scenario.daemons = random.pick(std::vector<std::uint32_t>{0, 0, 30});
  if (elastic.limit.count <= 4 && elastic.limit.window == seconds(3600) && random.percent(30))
    scenario.newcomers_die = 100;
  scenario.newcomers_fail = random.pick(std::vector<std::uint32_t>{0, 0, 0, 40, 100});
  scenario.work = random.percent(30) ? random.between(milliseconds(100), seconds(5))
                                     : random.between(seconds(1), seconds(200));
  scenario.finish_spread = random.between(
      Duration::zero(),
      random.pick(std::vector<Duration>{milliseconds(200), milliseconds(200), seconds(5), seconds(80)}));
  scenario.fails_at_end = random.pick(std::vector<std::uint32_t>{0, 0, 0, 10, 30});
  scenario.asks_at_end = random.pick(std::vector<std::uint32_t>{0, 0, 20, 60});
  scenario.latency = random.between(Duration(20'000), milliseconds(random.percent(80) ? 2 : 50));
  scenario.faults_until = random.between(seconds(1), seconds(120));
  add_faults(scenario, random);
  if (random.percent(20)) spec.compat = Compat::horovod;
  scenario.horovod = scenario.program_elastic && scenario.in_place() && random.percent(25);
  return scenario;
}

}  // namespace trainrun::sim
