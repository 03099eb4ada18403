// The end of an in-place program: its ranks finish one after the other, and whoever is left must finish, be
// told that it is over, or get a world that it has asked for.
#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "tests/sim/judge.h"

namespace trainrun::sim {

using namespace core;
using Phase = JobMachine::Phase;

// Before the event is taken down.
void Judge::note_end_of_program(const JobEvent& event) {
  if (const auto* port = std::get_if<PortReserved>(&event); port != nullptr && port->generation == reserved_)
    delivered_ = port->generation;
  const auto* waits = std::get_if<MemberWaits>(&event);
  asked_now_ = waits != nullptr && waits->generation.value != 0;
  if (!asked_now_) return;
  if (const auto it = workers_.find(waits->worker); it != workers_.end())
    it->second.asked_in = std::max(it->second.asked_in, waits->generation);
}

// Of a member of the world that is there.
void Judge::note_death(WorkerId id, const ExitStatus& status) {
  const auto& worker = workers_.at(id);
  if (!in_world(worker) || status.cancelled()) return;
  if (!status.success())
    died_unfinished_ = id;
  else if (!worker.ended_by_order)
    done_now_ = true;
}

// Once somebody has finished nobody is started any more, unless all start over; who has not asked for a place
// may be about to finish.
void Judge::check_who_goes_on(const BeginWorld& begin) {
  if (kept_ && program_ends()) {
    for (const auto id : begin.workers) {
      const auto known = workers_.find(id);
      if (known == workers_.end())
        fail(fmt::format("worker {} is to start, and others have finished", id.value));
      else if (known->second.asked_in != known->second.generation)
        fail(fmt::format("worker {} gets a place that it has not asked for, and others have finished",
                         id.value));
    }
    if (owed_) fail("the others go on after a failure, and nothing was charged");
  }
  done_before_ = kept_ && program_ends();
  done_now_ = over_ = owed_ = false;
  ending_since_.reset();
  if (!kept_ || (died_unfinished_ && workers_.at(*died_unfinished_).ended_by_order)) died_unfinished_.reset();
}

void Judge::check_end_of_program(const JobMachine& machine) {
  if (job_ends_ || !world_ || !(kept_ || met_ == world_->placement.generation)) return;
  const auto waiting = [this](const auto& it) {
    const auto& worker = it.second;
    return in_world(worker) && lives(worker) && !worker.ended_by_order &&
           worker.asked_in != worker.generation;
  };
  const bool asked = std::any_of(workers_.begin(), workers_.end(), [this](const auto& it) {
    return in_world(it.second) && lives(it.second) && it.second.asked_in == it.second.generation;
  });
  if (!program_ends() || (!over_ && !asked)) return;
  if (!ending_since_) ending_since_ = now_;
  if (machine.phase() != Phase::running && machine.phase() != Phase::cooling) return;
  const auto limit = scenario_.spec.start_timeout + scenario_.spec.grace + seconds(6);
  if (const auto late = std::find_if(workers_.begin(), workers_.end(), waiting);
      now_ - *ending_since_ > limit && late != workers_.end())
    fail(fmt::format("others have finished, and worker {} neither has nor asks for a place",
                     late->first.value));
}

// Members that want another world without having been told pay for it: all of them, not some.
void Judge::check_asked(const JobMachine&) {
  if (!asked_now_ || owed_ || !failed_.empty()) return;
  for (const auto& [id, worker] : workers_)
    if (in_world(worker) && lives(worker) && worker.asked_in != worker.generation)
      fail(fmt::format("a restart is charged since all members asked, and worker {} has not", id.value));
}

void Judge::check_settle(const JobMachine& machine) {
  const bool settles = std::exchange(settles_, false);
  if (machine.phase() != Phase::cooling) {
    settled_here_ = false;
    return;
  }
  if (settles && settled_here_) fail("cooling settles twice");
  settled_here_ = settled_here_ || settles;
}

// A rank that waits for one which has left a failed world would hear of it by a time-out of its library
// alone.
void Judge::note_who_is_freed(const EndGeneration& end) {
  if (const auto* change = std::get_if<cause::HostsChanged>(&end.cause);
      change != nullptr && change->left.empty() && change->resized.empty() && !kept_ && loads())
    fail("ranks that load start again for hosts that come");
  freed_ = end.free_survivors;
  hung_ = std::holds_alternative<cause::Hung>(end.cause);
  died_in_it_ = false;
  bool all_live = true;
  for (const auto& [id, worker] : workers_) {
    if (!is_member(worker) || lives(worker)) continue;
    all_live = false;
    died_in_it_ = died_in_it_ || !(worker.finished || (worker.status && worker.status->success()));
  }
  all_lived_ = all_live && (std::holds_alternative<cause::HostsChanged>(end.cause) ||
                            std::holds_alternative<cause::RanksReady>(end.cause) ||
                            std::holds_alternative<cause::HostLeaves>(end.cause));
}

void Judge::check_who_was_freed() {
  if (kept_ && died_in_it_ && !freed_) fail("a member died, and its survivors may wait for each other");
  if (freed_ && all_lived_) fail("ranks are torn out of a world that was to change as planned");
  freed_ = died_in_it_ = all_lived_ = false;
}

}  // namespace trainrun::sim
