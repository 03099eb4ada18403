#include "comm/errands.h"

namespace trainrun::comm {

Errands::Running::Running(Errands& errands, rendezvous::Client& client) : errands_(errands), client_(client) {
  const std::lock_guard lock(errands_.mutex_);
  errands_.running_.insert(&client_);
  if (errands_.interrupted_) client_.interrupt();
}

Errands::Running::~Running() {
  const std::lock_guard lock(errands_.mutex_);
  errands_.running_.erase(&client_);
}

void Errands::interrupt() {
  const std::lock_guard lock(mutex_);
  interrupted_ = true;
  for (auto* const client : running_) client->interrupt();
}

}  // namespace trainrun::comm
