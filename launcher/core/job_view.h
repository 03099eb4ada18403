// What of a job is shown to whoever asks: hosts, workers, how far it is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/base/id.h"
#include "launcher/base/time.h"
#include "launcher/core/job_phase.h"
#include "launcher/core/job_spec.h"
#include "launcher/core/placement.h"

namespace trainrun::core {

enum class HostState : std::uint8_t { gone, dialling, ready, stopping };
enum class WorkerState : std::uint8_t { ordered, spawned, exited, finished };
std::string to_string(HostState state);
std::string to_string(WorkerState state);

// What a status line shows.
struct JobProgress {
  JobPhase phase = JobPhase::gathering;
  std::uint32_t generation = 0;
  int hosts = 0, hosts_ready = 0;
  int ranks = 0, started = 0, alive = 0, finished = 0;
  int joined = 0;        // in the rendezvous, where others are awaited; none once all have met
  Instant ordered_at{};  // the world: since when those who have joined may have waited
  int waiting = 0;       // they have left the world, and are ready for the next one
  int newcomers = 0;     // beside the ranks: they start, and join when they are ready
  std::optional<Instant> newcomers_at{};  // others are started then, after the failure of one
  int ending = 0;                         // of those who must end
  Instant drained_at{};                   // draining: when that began
};

// For whoever asks what the world looks like.
struct HostView {
  HostIndex index;
  Host host;
  HostState state = HostState::gone;
  bool listed = false;
  bool kept = false;                    // it is not listed, and serves where the listed ones are too few
  bool leaves = false;                  // it, or the user, said so
  int stopped = 0;                      // slots that the user gave up
  std::string note;                     // why it is not used
  std::optional<Instant> used_again{};  // the earliest moment, of one that rests, left or cannot be reached
};
// A host as it is told: its state, or that no world uses it.
std::string state_of(const HostView& host);

struct WorkerView {
  WorkerId worker;
  Seat seat;
  std::uint32_t pid = 0;
  WorkerState state = WorkerState::ordered;
  Instant since{};        // of the state
  bool newcomer = false;  // it is to join, and its rank is planned
  bool waits = false;     // it has loaded, and waits for its place, or for others
  bool loads = false;     // others wait for it, or it is a newcomer
};
std::string state_of(const WorkerView& worker);

}  // namespace trainrun::core
