// What is told, and orders that must agree with it: phases in their order, who leaves, who survives, how many
// are killed.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <variant>

#include "tests/sim/judge.h"

namespace trainrun::sim {

using namespace core;
using Phase = JobMachine::Phase;

void Judge::check_order(const JobAction& action) {
  const auto only_in = [this](const char* what, Phase phase) {
    if (told_phase_ != phase) fail(fmt::format("{} while it is told as {}", what, to_string(told_phase_)));
  };
  if (const auto* port = std::get_if<ReservePort>(&action)) {
    only_in("a port is reserved", Phase::forming);
    if (port->generation.value != reserved_.value + 1) fail("a generation is left out");
  }
  if (std::holds_alternative<BeginWorld>(action)) only_in("a world begins", Phase::forming);
  if (const auto* start = std::get_if<StartWorker>(&action); start != nullptr && start->generation.value != 0)
    only_in("a rank is started", Phase::forming);
  if (std::holds_alternative<PlanNewcomers>(action) && told_phase_ != Phase::forming)
    only_in("a newcomer is started", Phase::running);
  if (std::holds_alternative<EndGeneration>(action)) only_in("a generation ends", Phase::draining);
  if (std::holds_alternative<Inspect>(action)) only_in("ranks are looked at", Phase::running);
  if (std::holds_alternative<Finish>(action)) only_in("the job ends", Phase::done);
  if (const auto* announce = std::get_if<Announce>(&action)) {
    only_in("a change is announced", Phase::running);
    check_announced(*announce);
  }
  const auto* signal = std::get_if<SignalWorkers>(&action);
  if (signal != nullptr && signal->deep && !signal->workers.empty())
    fail("a signal by name is meant for all that they have started");
  if (const auto* tell = std::get_if<Tell>(&action)) check_notice(tell->notice);
}

bool Judge::goes_away(HostIndex index) const {
  const auto& it = hosts_.at(index.value);
  return !it.listed || it.leaving || it.removed;
}

// Whose host goes, or has too few slots, and nobody else, is asked to leave.
void Judge::check_announced(const Announce& announce) {
  if (announce.hosts_leave && announce.leaving.empty()) fail("hosts leave, and nobody is asked to");
  const std::set<WorkerId> leaving(announce.leaving.begin(), announce.leaving.end());
  const auto may_stay = [this](HostIndex index) {
    const auto& on = hosts_.at(index.value);
    return on.kept && !on.listed && !on.leaving && !on.removed;
  };
  const int hand_over = handing_over();
  const bool has_room = elastic_world_ && size_on(good_slots(Link::ready) + hand_over) > hand_over;
  for (const auto& [id, worker] : workers_) {
    if (!is_member(worker) || worker.state != Known::State::started) continue;
    const bool beyond = slot_stopped_ || live_members(worker.seat.host, {}) > slots_there(worker.seat.host);
    if (leaving.contains(id) && !goes_away(worker.seat.host) && !beyond)
      fail(fmt::format("worker {} is asked to leave, and its host stays", id.value));
    const bool hands_over = hand_over > 0 && may_stay(worker.seat.host) && !worker.told_to_go;
    if (hands_over && has_room && !beyond && leaving.contains(id))
      fail(fmt::format("worker {} is asked to leave, before others hold the state", id.value));
    if (announce.hosts_leave && !leaving.contains(id) && goes_away(worker.seat.host) && !hands_over)
      fail(fmt::format("worker {} is not asked to leave, and its host goes", id.value));
  }
}

void Judge::check_notice(const Notice& notice) {
  if (const auto* change = std::get_if<notice::PhaseChanged>(&notice)) {
    if (change->from != told_phase_) fail("a phase is told that did not end");
    told_phase_ = change->to;
  }
  if (const auto* leaves = std::get_if<notice::HostLeaves>(&notice);
      leaves != nullptr && leaves->by_user != step_.by_user)
    fail("a host leaves by another's word than is told");
  const auto* killing = std::get_if<notice::Killing>(&notice);
  if (killing == nullptr) return;
  const auto alive = std::count_if(workers_.begin(), workers_.end(), [this](const auto& it) {
    return lives(it.second) && known_until(it.second.seat.host) == now_;
  });
  if (killing->ranks != alive)
    fail(fmt::format("{} ranks are told to be killed, and {} live", killing->ranks, alive));
}

void Judge::note_told(const Notice& notice) {
  if (const auto* change = std::get_if<notice::PhaseChanged>(&notice)) note_close(*change);
  if (const auto* rests = std::get_if<notice::HostRests>(&notice)) {
    rests_now_ = true;
    host(rests->host.index).good = false;
    host(rests->host.index).rests_until = now_ + rests->rest;
    host(rests->host.index).left_out_at = now_;
  }
  if (const auto* failed = std::get_if<notice::NewcomerFailed>(&notice)) note_told_of_newcomer(*failed);
  if (const auto* wait = std::get_if<notice::BackingOff>(&notice)) note_back_off(*wait);
  if (std::holds_alternative<notice::GenerationSkipped>(notice)) planned_end_ = true;
  if (const auto* restart = std::get_if<notice::Restarting>(&notice); restart != nullptr && !restart->as_well)
    death_ = std::holds_alternative<cause::RankFailed>(restart->cause) ||
             std::holds_alternative<cause::HostLost>(restart->cause);
  const auto* formed = std::get_if<notice::GenerationFormed>(&notice);
  if (formed == nullptr) return;
  check_told(*formed);
  told_ = formed->generation;
  told_at_ = now_;
}

// The cause is named as what it is.
void Judge::check_named(const Failure& cause) {
  const auto it = workers_.find(cause.worker);
  if (it == workers_.end()) return;
  const auto& seat = it->second.seat;
  if (cause.host != seat.host || (cause.rank != seat.rank && in_world(it->second)))
    fail("the cause is named elsewhere than it was");
  const bool started = cause.status.kind != ExitStatus::Kind::not_started;
  if (cause.pid != (started ? cause.worker.value : 0)) fail("the cause is named as another process");
}

}  // namespace trainrun::sim
