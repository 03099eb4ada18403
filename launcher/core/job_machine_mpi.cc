// What MPI programs tell: the half of the brain that hears of MPI_Abort, and of ranks that others wait for in
// vain.
#include "launcher/core/job_machine.h"
#include "launcher/core/mpi_world.h"

namespace trainrun::core {

// Says whose MPI the programs of the first world are; false: of two, and nothing is to be started.
bool JobMachine::mpi_is_one() {
  const FactsOf facts = [this](HostIndex host) { return roster_.at(host).facts.get(); };
  const auto clash = mpi_clash(spec_, world_.placement(), facts);
  if (clash && !clash->first.guessed && !clash->second.guessed) {
    verdict_.why = cause::MpiMixed{clash->first, clash->second};
    return false;
  }
  for (auto& found : mpi_found(spec_, world_.placement(), facts)) tell(std::move(found));
  if (clash) tell(notice::MpiMixed{clash->first, clash->second});
  return true;
}

void JobMachine::on(const WorkerAborted& event) {
  switch (phase_) {
    case Phase::forming:
    case Phase::running: {
      const auto* worker = world_.find(event.worker);
      if (worker == nullptr || !worker->member || worker->state != WorkerState::spawned)
        return ignore("worker aborted", "it is no member, or its end is known");
      world_.change(event.worker, [&](Worker& it) { it.status = ExitStatus::aborted(event.code); });
      world_.failed(event.worker,
                    {event.worker, worker->seat.rank, worker->seat.host, worker->pid, worker->status,
                     event.at, event.error, event.lost_peer},
                    event.last_words);
      return worker_failed(event.worker);
    }
    case Phase::gathering:
      return ignore("worker aborted", "none was ordered");
    case Phase::draining:
    case Phase::cooling:
      return ignore("worker aborted", "it is being ended already");
    case Phase::closing:
    case Phase::done:
      return ignore("worker aborted", "it was given up");
  }
}

void JobMachine::on(const ExchangeBroken& event) {
  const bool for_a_rank = !event.culprits.empty();
  // Ranks whose exchange it was may have ended before we hear why.
  const bool ending = phase_ == Phase::draining || phase_ == Phase::closing;
  if (event.generation != world_.generation() || !(world_stands() || (ending && !for_a_rank)))
    return ignore("exchange broken", "it is over");
  for (const auto rank : event.culprits) {
    const auto* worker = world_.member_at(rank);
    if (worker == nullptr || worker->alive() || worker->failure) continue;
    world_.change(worker->id, [&event](Worker& it) {
      it.status = ExitStatus::deserted(
          std::string(event.horovod ? without_hvd_init : "while other ranks waited for it in MPI"));
    });
    world_.failed(worker->id,
                  {worker->id, rank, worker->seat.host, worker->pid, worker->status, worker->since}, {});
    return worker_disrupts(worker->id);
  }
  // The ranks in it got an error, and will say so and end.
  if (!ending && !for_a_rank) exchange_lost_ = ExchangeLoss{event.generation, now_, event.reason};
  tell(notice::MpiCannotMeet{event.generation, event.reason});
}

}  // namespace trainrun::core
