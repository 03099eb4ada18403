// What one schedule plays: a job, its programs' manners, and the faults. All of it follows from one number.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/core/job_spec.h"

namespace trainrun::sim {

struct Fault {
  enum class Kind : std::uint8_t {
    link_reset,     // both ends see it; what was under way is lost
    link_cut,       // nothing passes for `span`; nobody is told
    agent_crash,    // its watcher ends the workers
    agent_freeze,   // for `span`; workers go on
    host_power,     // off for `span`
    host_slow,      // 200 ms and more each way, for `span`
    worker_exit,    // with a status of many
    worker_freeze,  // SIGSTOP, for `span`
    worker_stuck,   // never comes back from what it does, and ignores SIGTERM
    worker_daemon,  // leaves a daemon that only a sweep ends
    worker_held,    // SIGKILL does not end it for `span`: the kernel holds it
    output_held,    // its output comes late by `span`, or by minutes
    spawn_fails,    // on that host for `span`
    dial_fails,     // that host for `span`
    dial_late,      // the host answers after `span`, perhaps when it was given up
    port_refused,   // the next one
    hosts_change,   // of the list: fewer, more, other slots, another order, duplicates, other names
    hosts_vanish,   // the list is empty for `span`
    host_leaves,    // says so itself
    user_signal,
    output_closed,
    ctl_remove_host,
    ctl_add_host,
    ctl_restart_world,
    ctl_restart_worker,
    ctl_stop_worker
  };
  static constexpr auto kinds = static_cast<std::size_t>(Kind::ctl_stop_worker) + 1;
  Kind kind = Kind::link_reset;
  int step = -1;  // after so many events of the brain; -1: at a time
  Duration at{};  // since the start
  Duration span{};
  std::uint32_t pick = 0;  // which host or worker, among those there are then
  std::uint32_t more = 0;  // which status, signal, change
};
std::string describe(const Fault& fault);

struct Scenario {
  std::uint64_t seed = 0;
  JobSpec spec;
  bool comm = false;                            // members meet in the rendezvous
  bool program_elastic = false;                 // ... and can take a place in the next world
  bool horovod = false;                         // ... as Horovod's ranks do
  std::uint32_t collateral = 0;                 // percent of peers that die when one died
  std::uint32_t ignores_term = 0, daemons = 0;  // percent of workers
  std::uint32_t newcomers_die = 0;   // percent of those of a later generation, saying that a peer went
  std::uint32_t newcomers_fail = 0;  // percent of those that are not waited for, while they load
  Duration work{};                   // what the whole world has to do
  Duration finish_spread{};          // within which its ranks finish
  std::uint32_t fails_at_end = 0;    // percent of ranks whose last step fails
  std::uint32_t asks_at_end = 0;     // percent of ranks that another one's end keeps from finishing
  Duration latency{};
  Duration faults_until{};
  std::vector<Fault> faults;

  [[nodiscard]] bool in_place() const {
    return spec.elastic.on_failure == OnFailure::in_place || spec.elastic.on_failure == OnFailure::automatic;
  }
  [[nodiscard]] int least() const {
    return spec.elastic.min_np > 0 ? spec.elastic.min_np : spec.world_size();
  }
  [[nodiscard]] int most() const { return spec.elastic.max_np > 0 ? spec.elastic.max_np : spec.world_size(); }
  [[nodiscard]] std::string describe() const;
};

Scenario scenario_of(std::uint64_t seed);
// The number of schedule `number` of a run.
std::uint64_t schedule_seed(std::uint64_t seed, std::uint64_t number);

}  // namespace trainrun::sim
