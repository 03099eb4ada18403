#include "launcher/agent/start_queue.h"

#include <algorithm>
#include <utility>

namespace trainrun::agent {

StartQueue::StartQueue(io::Loop& loop, Handlers handlers) : loop_(loop), handlers_(std::move(handlers)) {}

void StartQueue::add(wire::Start order) {
  waiting_.push_back(std::move(order));
  if (!resting_) next();
}

void StartQueue::drop(const std::vector<WorkerId>& workers) {
  std::vector<WorkerId> dropped;
  std::erase_if(waiting_, [&](const wire::Start& order) {
    const bool meant =
        workers.empty() || std::find(workers.begin(), workers.end(), order.worker) != workers.end();
    if (meant) dropped.push_back(order.worker);
    return meant;
  });
  for (const auto worker : dropped) handlers_.dropped(worker);
}

void StartQueue::hold(bool on) {
  held_ = on;
  if (!resting_) next();
}

void StartQueue::next() {
  resting_ = false;
  if (held_ || waiting_.empty()) return;
  const auto order = std::move(waiting_.front());
  waiting_.pop_front();
  resting_ = true;
  loop_.post([this] { next(); });
  handlers_.start(order);
}

}  // namespace trainrun::agent
