#include "launcher/agent/socket_owner.h"

#include <dirent.h>
#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <string_view>

#include "launcher/agent/process_tree.h"
#include "launcher/base/strings.h"

namespace trainrun::agent {

void each_socket(const std::string& process,
                 const std::function<bool(int descriptor, std::uint64_t inode)>& taken) {
  constexpr std::string_view prefix = "socket:[";
  const auto descriptors = fmt::format("/proc/{}/fd", process);
  const std::unique_ptr<DIR, int (*)(DIR*)> all(::opendir(descriptors.c_str()), ::closedir);
  if (!all) return;
  while (const auto* entry = ::readdir(all.get())) {
    char target[64]{};
    const auto path = fmt::format("{}/{}", descriptors, entry->d_name);
    if (::readlink(path.c_str(), target, sizeof target - 1) <= 0) continue;
    std::string_view word(target);
    if (!word.starts_with(prefix)) continue;
    word.remove_prefix(prefix.size());
    const auto descriptor = parse_unsigned<std::uint32_t>(entry->d_name);
    const auto inode = parse_unsigned<std::uint64_t>(word.substr(0, word.find(']')));
    if (descriptor && inode && taken(static_cast<int>(*descriptor), *inode)) return;
  }
}

std::set<std::uint64_t> sockets_of(const std::string& process) {
  std::set<std::uint64_t> found;
  each_socket(process, [&](int, std::uint64_t inode) {
    found.insert(inode);
    return false;
  });
  return found;
}

bool has_socket(const std::string& process, const std::set<std::uint64_t>& inodes) {
  bool found = false;
  each_socket(process, [&](int, std::uint64_t inode) { return found = inodes.contains(inode); });
  return found;
}

std::optional<WorkerId> worker_with_socket(std::uint64_t inode,
                                           const std::vector<Supervisor::Leader>& leaders) {
  for (const auto& leader : leaders)
    if (has_socket(std::to_string(leader.pid), {inode})) return leader.worker;
  const ProcessTree tree;
  for (const auto& leader : leaders)
    for (const pid_t process : tree.descendants(leader.pid))
      if (has_socket(std::to_string(process), {inode})) return leader.worker;
  return std::nullopt;
}

}  // namespace trainrun::agent
