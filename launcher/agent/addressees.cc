#include "launcher/agent/addressees.h"

#include <fmt/format.h>
#include <limits.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "launcher/agent/filter.h"
#include "launcher/agent/process_stat.h"

namespace trainrun::agent {
namespace {

constexpr std::array<std::string_view, 8> shells{"sh",  "bash", "dash", "zsh",
                                                 "ksh", "mksh", "fish", "busybox"};
constexpr std::size_t most_addressees = 1024;  // a shell may have started any number
constexpr int deepest = 64;                    // and shells in shells

// bash with `trap ... EXIT` catches whatever could end it, to run that trap: at once, and whatever runs below
// it. Nobody sets a trap for a programming error, so this tells it from a trap for the signal.
bool traps(const SignalSets& shell, int number) {
  return SignalSets::has(shell.caught, number) && !SignalSets::has(shell.caught, SIGILL);
}

// Without job control a shell has what it starts with `&` ignore both.
bool in_background(const SignalSets& shell, const SignalSets& child) {
  const auto ignores_both = [](const SignalSets& sets) {
    return SignalSets::has(sets.ignored, SIGINT) && SignalSets::has(sets.ignored, SIGQUIT);
  };
  return ignores_both(child) && !ignores_both(shell);
}

class Search {
 public:
  Search(const ProcessTree& tree, int number) : tree_(tree), number_(number) {}

  // True if one that was added for it has its own way with the signal.
  bool add(pid_t pid, bool background, int depth) {
    const auto sets = signal_sets(pid);
    if (depth == 0 || !is_shell(pid)) {
      found.push_back(pid);
      return sets.has_own_way_with(number_);
    }
    const bool trapped = traps(sets, number_);
    const auto children = tree_.children(pid);
    auto writers = children;
    writers.push_back(pid);
    const PipesWritten pipes(writers);
    bool spare = false;
    for (const auto child : children) {
      if (found.size() >= most_addressees) break;
      const auto of_child = signal_sets(child);
      const bool behind = in_background(sets, of_child);
      // Shells catch SIGINT also without a trap.
      if (trapped && behind && number_ != SIGINT) continue;
      if (!of_child.has_own_way_with(number_) && pipes.feed(child)) continue;
      spare |= add(child, behind, depth - 1);
    }
    // One in the background may be a loop that never ends by itself, and nobody's output passes through it.
    if (trapped || background || !spare) found.push_back(pid);
    return spare || trapped;
  }

  std::vector<pid_t> found;

 private:
  const ProcessTree& tree_;
  int number_;
};

}  // namespace

bool is_shell(pid_t pid) {
  char target[PATH_MAX];
  const ssize_t size = ::readlink(fmt::format("/proc/{}/exe", pid).c_str(), target, sizeof target);
  const std::string_view path(target, size > 0 ? static_cast<std::size_t>(size) : 0);
  return std::find(shells.begin(), shells.end(), path.substr(path.rfind('/') + 1)) != shells.end();
}

std::vector<pid_t> addressees(const ProcessTree& tree, pid_t leader, int number) {
  Search search(tree, number);
  search.add(leader, false, deepest);
  return std::move(search.found);
}

}  // namespace trainrun::agent
