#include "launcher/agent/asked_to_end.h"

#include <unistd.h>

#include <utility>

#include "launcher/agent/process_stat.h"

namespace trainrun::agent {

bool AskedToEnd::note(pid_t pid) {
  const auto stat = process_stat(pid);
  // Without /proc nothing tells of it but its number, which the leaders that we have not reaped still have.
  if (!stat && !process_stat(::getpid())) return started_.try_emplace(pid, 0).second;
  if (!stat || !stat->lives()) return false;
  const auto [it, added] = started_.try_emplace(pid, stat->started);
  return added || std::exchange(it->second, stat->started) != stat->started;
}

bool AskedToEnd::contains(pid_t pid) const {
  const auto it = started_.find(pid);
  if (it == started_.end()) return false;
  const auto stat = process_stat(pid);
  return stat && stat->started == it->second;
}

bool AskedToEnd::any_lives() {
  std::erase_if(started_, [](const auto& one) {
    const auto stat = process_stat(one.first);
    return !stat || stat->started != one.second || !stat->lives();
  });
  return !started_.empty();
}

}  // namespace trainrun::agent
