// What is known of one worker.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/base/exit_status.h"
#include "launcher/base/id.h"
#include "launcher/base/time.h"
#include "launcher/core/job_view.h"
#include "launcher/core/outcome.h"
#include "launcher/core/ranks.h"

namespace trainrun::core {

// What was decided about a worker; each includes those before it.
enum class Fate : std::uint8_t {
  stays,
  asked_to_leave,  // the next world has no place for it: however it ends, it followed
  condemned,       // we end it: its end is no failure
  killed           // it was alive when SIGKILL was sent
};

// How a worker went, where its exit status does not tell.
enum class Departure : std::uint8_t {
  by_itself,
  after_signal,  // it had been asked to end
  raised,        // it had just printed the exception of a traceback
  with_agent,    // its agent went in an orderly way, and ends it by SIGTERM
  left_behind    // for its agent to end, since we leave at once
};

struct Worker {
  WorkerId id;
  Seat seat;
  WorkerState state = WorkerState::ordered;
  Instant since{};  // when it was ordered, spawned, ended, or asked for a first place
  std::uint32_t pid = 0;
  bool member = true;  // of the current world
  bool newcomer =
      false;  // it has had no place so far, and is to have one; any other that is no member has none any more
  Fate fate = Fate::stays;
  std::optional<Instant> leaves_by{};  // it was told to go, and is ended then; after SIGKILL: given up
  bool has_state = false;              // it was in a world that had met
  bool joined = false;                 // it is in the rendezvous of this generation
  bool waits = false;                  // it has left this generation's work
  std::optional<Failure> failure{};
  ExitStatus status{};
  Departure departure = Departure::by_itself;

  [[nodiscard]] bool alive() const { return state == WorkerState::ordered || state == WorkerState::spawned; }
  [[nodiscard]] bool condemned() const { return fate >= Fate::condemned; }
  [[nodiscard]] bool killed() const { return fate == Fate::killed; }
  [[nodiscard]] bool survives() const { return member && !condemned() && state == WorkerState::spawned; }
  [[nodiscard]] bool has_no_place() const { return !member && !newcomer; }
  [[nodiscard]] bool may_join() const { return newcomer && !condemned() && alive(); }
  // By itself: not because we ended it, or asked it to leave.
  [[nodiscard]] bool ended_well() const;
  // Its end, or its start, is awaited. That of one that has ended is not, though its last output may wait for
  // a reader of ours.
  [[nodiscard]] bool awaited() const;
};

}  // namespace trainrun::core
