#include "launcher/agent/await_watchers.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "launcher/agent/process_tree.h"
#include "launcher/agent/watcher.h"
#include "launcher/base/fd.h"
#include "launcher/base/strings.h"

namespace trainrun::agent {

void await_watchers(Duration limit) {
  using std::chrono::steady_clock;
  const auto due = steady_clock::now() + limit;
  for (const auto child : ProcessTree().children(::getpid())) {
    const auto name = read_file(fmt::format("/proc/{}/comm", child), 64);
    if (!name || trim(*name) != watcher_name) continue;
    const Fd handle(static_cast<int>(::syscall(SYS_pidfd_open, child, 0U)));
    const auto left = std::chrono::ceil<milliseconds>(due - steady_clock::now()).count();
    pollfd end{handle.get(), POLLIN, 0};
    if (handle) ::poll(&end, 1, static_cast<int>(std::max<std::int64_t>(left, 0)));
    ::waitpid(child, nullptr, WNOHANG);
  }
}

}  // namespace trainrun::agent
