#include "launcher/core/worker.h"

namespace trainrun::core {

std::string to_string(WorkerState state) {
  switch (state) {
    case WorkerState::ordered:
      return "starting";
    case WorkerState::spawned:
      return "running";
    case WorkerState::exited:
    case WorkerState::finished:
      return "ended";
  }
  return {};
}

std::string state_of(const WorkerView& worker) {
  if (worker.state == WorkerState::spawned || worker.waits) {
    if (worker.waits && worker.newcomer) return "ready";
    if (worker.waits) return "waiting";
    if (worker.loads) return "loading";
  }
  return to_string(worker.state);
}

bool Worker::ended_well() const { return member && fate == Fate::stays && !alive() && status.success(); }

bool Worker::awaited() const {
  switch (state) {
    case WorkerState::ordered:
      return condemned() || member;
    case WorkerState::spawned:
      return condemned();
    case WorkerState::exited:
    case WorkerState::finished:
      break;
  }
  return false;
}

}  // namespace trainrun::core
