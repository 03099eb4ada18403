// Which processes descend from one, and how to end them all. Linux /proc; bounded passes, no waiting.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace trainrun::agent {

// Who is whose child. A snapshot: a process that forks or loses its parent meanwhile may be missing.
class ProcessTree {
 public:
  ProcessTree();
  [[nodiscard]] std::vector<pid_t> children(pid_t parent) const;
  // Children, grandchildren and so on of `root`, without `root`.
  [[nodiscard]] std::vector<pid_t> descendants(pid_t root) const;

 private:
  // Not there: the kernel lists each process's children, and they are read when asked for.
  std::optional<std::unordered_map<pid_t, std::vector<pid_t>>> all_;
};

std::vector<pid_t> descendants(pid_t root);
std::vector<pid_t> threads_of(pid_t process);
std::vector<pid_t> all_processes();  // of this host

// Sends `number` to all that `look` finds, which must be descendants of this process. With SIGKILL it looks
// again until no new ones appear, so that a process cannot get away by forking. Gives how many different
// processes were reached.
std::size_t signal_all(const std::function<std::vector<pid_t>()>& look, int number);

// The same for every descendant of this process.
std::size_t signal_descendants(int number);

// The names of their programs, each once, at most `most`; a program may choose its own.
std::set<std::string> names_of(const std::vector<pid_t>& processes, std::size_t most);

// Those that live and may not be signalled by us: a set-uid program has made them another user's.
std::vector<pid_t> beyond_reach(const std::vector<pid_t>& processes);

// This process has no child left, neither running nor to be reaped; since it is a subreaper, none of the job
// is.
bool no_children_left();

// Unlinks a directory and the files in it (directories in it too, to depth 8); other file systems are not
// entered.
void remove_tree(const std::string& path);

}  // namespace trainrun::agent
