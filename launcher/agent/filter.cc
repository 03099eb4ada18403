#include "launcher/agent/filter.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

namespace trainrun::agent {
namespace {

// "pipe:[NUMBER]", the same for both ends; nothing if it is no pipe.
std::string pipe_at(pid_t pid, int number) {
  char target[64];
  const ssize_t size = ::readlink(fmt::format("/proc/{}/fd/{}", pid, number).c_str(), target, sizeof target);
  const std::string_view name(target, size > 0 ? static_cast<std::size_t>(size) : 0);
  return name.starts_with("pipe:[") ? std::string(name) : std::string{};
}

}  // namespace

PipesWritten::PipesWritten(const std::vector<pid_t>& writers) {
  for (const auto pid : writers) {
    for (const int number : {STDOUT_FILENO, STDERR_FILENO}) {
      if (auto pipe = pipe_at(pid, number); !pipe.empty()) writers_[std::move(pipe)].push_back(pid);
    }
  }
}

bool PipesWritten::feed(pid_t pid) const {
  const auto it = writers_.find(pipe_at(pid, STDIN_FILENO));
  return it != writers_.end() &&
         std::any_of(it->second.begin(), it->second.end(), [pid](pid_t writer) { return writer != pid; });
}

}  // namespace trainrun::agent
