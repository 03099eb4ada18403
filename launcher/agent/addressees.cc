#include "launcher/agent/addressees.h"

#include <fmt/format.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace trainrun::agent {
namespace {

constexpr std::array<std::string_view, 8> shells{"sh",  "bash", "dash", "zsh",
                                                 "ksh", "mksh", "fish", "busybox"};
constexpr std::size_t most_addressees = 1024;  // a shell may have started any number

}  // namespace

bool is_shell(pid_t pid) {
  char target[PATH_MAX];
  const ssize_t size = ::readlink(fmt::format("/proc/{}/exe", pid).c_str(), target, sizeof target);
  const std::string_view path(target, size > 0 ? static_cast<std::size_t>(size) : 0);
  return std::find(shells.begin(), shells.end(), path.substr(path.rfind('/') + 1)) != shells.end();
}

std::vector<pid_t> addressees(const ProcessTree& tree, pid_t leader) {
  std::vector<pid_t> found{leader};
  for (std::size_t i = 0; i < found.size() && found.size() < most_addressees; ++i) {
    if (!is_shell(found[i])) continue;
    for (const auto child : tree.children(found[i])) found.push_back(child);
  }
  return found;
}

}  // namespace trainrun::agent
