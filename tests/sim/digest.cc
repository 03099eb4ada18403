#include "tests/sim/digest.h"

#include <string>

#include "launcher/core/record.h"

namespace trainrun::sim {

void Digest::add(const core::JobActions& actions, const core::JobMachine& machine) {
  const auto text = [this](const std::string& it) {
    for (const char c : it) mix(static_cast<unsigned char>(c));
  };
  text(core::encode(actions));
  const auto p = machine.progress();
  for (const int number : {p.hosts, p.hosts_ready, p.ranks, p.started, p.alive, p.finished, p.ending,
                           machine.restarts(), static_cast<int>(p.phase), static_cast<int>(p.generation)})
    mix(static_cast<std::uint64_t>(number));
  for (const auto& worker : machine.workers()) {
    mix(worker.worker.value), mix(worker.seat.rank.value), mix(static_cast<std::uint64_t>(worker.state));
    mix(static_cast<std::uint64_t>(worker.since.time_since_epoch().count()));
  }
  for (const auto& host : machine.hosts()) {
    mix(static_cast<std::uint64_t>(host.state)), mix(host.listed), mix(host.leaves);
    mix(static_cast<std::uint64_t>(host.stopped)), mix(static_cast<std::uint64_t>(host.host.slots));
    mix(static_cast<std::uint64_t>(host.used_again.value_or(Instant{}).time_since_epoch().count()));
    mix(machine.holds_without(host.index));
    text(host.note);
  }
  mix(machine.holds_with_a_slot_less()), mix(machine.may_restart()), mix(machine.may_restart(Rank{0}));
}

}  // namespace trainrun::sim
