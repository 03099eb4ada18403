#include "launcher/agent/socket_owner.h"

#include <dirent.h>
#include <fmt/format.h>
#include <unistd.h>

#include <memory>

#include "launcher/agent/process_tree.h"

namespace trainrun::agent {

bool has_socket(const std::string& process, std::uint64_t inode) {
  const auto descriptors = fmt::format("/proc/{}/fd", process), socket = fmt::format("socket:[{}]", inode);
  const std::unique_ptr<DIR, int (*)(DIR*)> all(::opendir(descriptors.c_str()), ::closedir);
  if (!all) return false;
  while (const auto* entry = ::readdir(all.get())) {
    char target[64]{};
    const auto path = fmt::format("{}/{}", descriptors, entry->d_name);
    if (::readlink(path.c_str(), target, sizeof target - 1) > 0 && socket == target) return true;
  }
  return false;
}

std::optional<WorkerId> worker_with_socket(std::uint64_t inode,
                                           const std::vector<Supervisor::Leader>& leaders) {
  for (const auto& leader : leaders)
    if (has_socket(std::to_string(leader.pid), inode)) return leader.worker;
  const ProcessTree tree;
  for (const auto& leader : leaders)
    for (const pid_t process : tree.descendants(leader.pid))
      if (has_socket(std::to_string(process), inode)) return leader.worker;
  return std::nullopt;
}

}  // namespace trainrun::agent
