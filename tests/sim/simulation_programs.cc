// Workers: plain programs that know nothing of us, and members of the rendezvous that come for their next
// place.
#include <csignal>

#include "tests/sim/simulation.h"

namespace trainrun::sim {
namespace {

// A join has a deadline of its own; a place in the next world is waited for until the launcher says
// something.
constexpr Duration join_patience = seconds(120), place_patience = seconds(80'000),
                   operation_patience = seconds(60);

}  // namespace

void Simulation::later(Process& process, Duration wait, Work work) {
  timeline_.in(wait, [&process, turn = process.turn, work = std::move(work)] {
    if (process.alive && process.turn == turn) work();
  });
}

void Simulation::boot(Process& process) {
  if (process.born.value > 1 && random_.percent(scenario_.newcomers_die)) {
    return later(process, random_.between(milliseconds(1), milliseconds(500)),
                 [this, &process] { exit_by_itself(process, ExitStatus::exited(1), true); });
  }
  if (process.generation.value == 0 && random_.percent(scenario_.newcomers_fail)) {
    if (random_.percent(10)) return;  // it never asks for its place
    const auto status = ExitStatus::exited(random_.percent(10) ? 0 : 7);
    return later(process, random_.between(milliseconds(1), milliseconds(random_.percent(70) ? 20 : 3000)),
                 [this, &process, status] { exit_by_itself(process, status, false); });
  }
  if (!scenario_.comm) {
    for (const auto worker : world_.workers) {
      const auto it = process_of_.find(worker);
      if (it == process_of_.end() || (!it->second->alive && !it->second->done)) return;
    }
    return world_works(process.generation);
  }
  const bool reads_much = process.born.value > 1 && random_.percent(5);
  const auto loads = reads_much
                         ? random_.between(seconds(5), scenario_.spec.start_timeout * 3)
                         : random_.between(milliseconds(1), milliseconds(random_.percent(90) ? 100 : 5000));
  later(process, loads, [this, &process] {
    if (process.generation.value == 0) return ask_for_first_place(process);
    join(process);
  });
}

// Through the agent's door, and so through its link.
void Simulation::ask_rendezvous(Process& process, Work work) {
  auto& agent = agents_[static_cast<std::size_t>(process.agent)];
  run_on(agent, [this, &agent, work] { up(agent, work); });
}

void Simulation::join(Process& process) {
  if (process.frozen) return later(process, milliseconds(100), [this, &process] { join(process); });
  process.at = Process::At::joining;
  ++process.turn;
  // A survivor waits for newcomers as long as the launcher does.
  const auto time_limit = process.generation > process.born ? place_patience : join_patience;
  ask_rendezvous(process, [this, time_limit, worker = process.worker, generation = process.generation,
                           rank = process.rank] {
    rendezvous_.join(worker, generation, rank, scenario_.program_elastic, time_limit);
  });
  later(process, time_limit, [this, &process] { exit_by_itself(process, ExitStatus::exited(1), true); });
}

void Simulation::ask_for_first_place(Process& process) {
  if (process.frozen)
    return later(process, milliseconds(100), [this, &process] { ask_for_first_place(process); });
  if (!process.stuck) wait_for_place(process);
}

void Simulation::wait_for_place(Process& process) {
  process.at = Process::At::waiting;
  ++process.turn;
  process.notice.reset();
  ask_rendezvous(process, [this, worker = process.worker, generation = process.generation] {
    rendezvous_.next(worker, generation, place_patience);
  });
  later(process, place_patience, [this, &process] { exit_by_itself(process, ExitStatus::exited(1), true); });
}

void Simulation::hear(Process& process, const Word& word) {
  if (!process.alive) return;
  if (process.frozen) return process.unheard.push_back(word);
  if (process.stuck || process.at == Process::At::leaving) return;
  switch (word.kind) {
    case Word::Kind::formed:
      if (process.at != Process::At::joining || word.generation != process.generation) return;
      process.at = Process::At::working;
      ++process.turn;
      if (process.notice) heed_notice(process);
      return world_works(process.generation);
    case Word::Kind::over:
      if (word.generation != process.generation ||
          (process.at != Process::At::joining && process.at != Process::At::working))
        return;
      ++process.turn;
      return later(process, random_.between(Duration::zero(), milliseconds(random_.percent(90) ? 20 : 5000)),
                   [this, &process] { leave_world(process); });
    case Word::Kind::placed:
      if (process.at != Process::At::waiting) return;
      process.generation = word.generation;
      process.rank = word.rank;
      return join(process);
    case Word::Kind::removed:
      process.at = Process::At::leaving;
      ++process.turn;
      return later(process, random_.between(milliseconds(1), seconds(1)), [this, &process] {
        if (!process.ignores_term) exit_by_itself(process, ExitStatus::exited(0), false);
      });
    case Word::Kind::notice:
      if (word.generation != process.generation) return;
      process.notice = word.stopping;
      if (process.at == Process::At::working) heed_notice(process);
      return;
  }
}

// Its generation is over.
void Simulation::leave_world(Process& process) {
  if (process.stuck) return;
  if (process.frozen) return later(process, milliseconds(100), [this, &process] { leave_world(process); });
  const bool goes_on = scenario_.program_elastic && scenario_.in_place();
  if (goes_on) return wait_for_place(process);
  exit_by_itself(process, ExitStatus::exited(1), true);
}

// At its next commit.
void Simulation::heed_notice(Process& process) {
  later(process, random_.between(milliseconds(20), seconds(3)), [this, &process] {
    if (process.stuck || !process.notice || !scenario_.program_elastic) return;
    if (process.frozen) return heed_notice(process);
    if (*process.notice && random_.percent(20))  // it does not look, and waits for those that do
      return later(process, operation_patience, [this, &process] {
        if (working_ != process.generation) leave_world(process);
      });
    world_commits(process.generation);
    if (!*process.notice || random_.percent(30)) return wait_for_place(process);
    ask_rendezvous(process, [this, worker = process.worker, generation = process.generation] {
      rendezvous_.leave(worker, generation);
    });
    exit_by_itself(process, random_.percent(70) ? ExitStatus::exited(0) : ExitStatus::exited(143), false);
  });
}

void Simulation::exit_by_itself(Process& process, ExitStatus status, bool lost_peer) {
  if (process.stuck || !process.alive) return;
  process.lost_peer = lost_peer;
  if (process.frozen) {
    process.ends = std::move(status);
    return;
  }
  died(process, std::move(status));
}

void Simulation::stop_process(Process& process) { process.frozen = true; }

void Simulation::continue_process(Process& process) {
  if (!process.frozen) return;
  process.frozen = false;
  if (!process.alive) return;
  if (process.ends) return died(process, *process.ends);
  if (std::exchange(process.term_pending, false)) send_signal(process, SIGTERM);
  // What it would have done meanwhile it does now: it finds its world over, or goes on.
  for (const auto& word : std::exchange(process.unheard, {})) hear(process, word);
}

// ---- what the world does together

void Simulation::world_works(Generation generation) {
  if (working_ == generation || generation != world_.placement.generation) return;
  working_ = generation;
  working_since_ = now();
  // A member's first pulse, which may be heard when that world is over.
  if (scenario_.comm && random_.percent(70)) {
    timeline_.in(random_.between(milliseconds(1), seconds(3)), [this, generation] {
      if (!finished_) tell(core::WorldProgressed{generation});
    });
  }
  timeline_.in(left_, [this, generation, turn = ++work_turn_] { work_done(generation, turn); });
}

void Simulation::work_done(Generation generation, int turn) {
  if (turn != work_turn_ || working_ != generation) return;
  for (const auto worker : world_.workers) {
    const auto it = process_of_.find(worker);
    const bool there = it != process_of_.end() && it->second->alive;
    const bool on_its_way = there && it->second->at == Process::At::joining;
    const bool waits = there && (it->second->frozen || it->second->stuck || on_its_way);
    if (waits) return timeline_.in(seconds(1), [this, generation, turn] { work_done(generation, turn); });
  }
  // A program that never ended well would be restarted for ever.
  const bool tried = generation.value > 4;
  const auto spread = tried ? milliseconds(200) : scenario_.finish_spread;
  const auto fails = tried ? 0 : scenario_.fails_at_end;
  left_ = std::min<Duration>(left_, seconds(5));
  for (const auto worker : world_.workers) {
    const auto it = process_of_.find(worker);
    if (it == process_of_.end() || !it->second->alive || it->second->generation != generation) continue;
    auto& process = *it->second;
    if (scenario_.comm && process.at != Process::At::working) continue;
    // What becomes of its peers does not reach one that is past its last collective.
    const bool past = random_.percent(50);
    if (past) {
      process.at = Process::At::leaving;
      ++process.turn;
    }
    later(process, random_.between(Duration::zero(), spread), [this, &process, past, fails] {
      if (process.stuck) return;
      if (random_.percent(fails)) return exit_by_itself(process, ExitStatus::exited(1), random_.percent(50));
      if (!past && scenario_.program_elastic && scenario_.in_place() && !process.frozen &&
          random_.percent(scenario_.asks_at_end))
        return wait_for_place(process);
      if (scenario_.comm)
        ask_rendezvous(process, [this, worker = process.worker, generation = process.generation] {
          rendezvous_.leave(worker, generation);
        });
      process.at = Process::At::leaving;
      exit_by_itself(process, ExitStatus::exited(0), false);
    });
  }
}

void Simulation::world_commits(Generation generation) {
  if (working_ != generation) return;
  left_ = std::max<Duration>(milliseconds(1), left_ - (now() - working_since_));
  working_ = {};
  ++work_turn_;
}

// What was not saved is lost; peers that talk to the dead may die of it.
void Simulation::world_fails(Generation generation, const Process* culprit) {
  if (working_ == generation && working_.value > 0) {
    const auto done = (now() - working_since_) / 10 * 7;
    left_ = std::max<Duration>(seconds(1), left_ - done);
    working_ = {};
    working_since_ = now();
    ++work_turn_;
  }
  if (scenario_.comm || generation != world_.placement.generation) return;
  for (const auto worker : world_.workers) {
    const auto it = process_of_.find(worker);
    if (it == process_of_.end() || !it->second->alive || it->second == culprit) continue;
    if (!random_.percent(scenario_.collateral)) continue;
    auto& process = *it->second;
    const bool at_once = random_.percent(70);
    const auto when = random_.between(milliseconds(1), milliseconds(at_once ? 20 : 2000));
    const bool silent = at_once && random_.percent(20);  // it does not say why
    later(process, when, [this, &process, silent] {
      if (process.stuck || !process.alive) return;
      if (silent) judge_.silent_victim(process.worker);
      const bool exits = silent || random_.percent(50);
      exit_by_itself(process, exits ? ExitStatus::exited(1) : ExitStatus::killed(SIGABRT, true), !silent);
    });
  }
}

}  // namespace trainrun::sim
