#include "launcher/agent/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>

#include "launcher/agent/process_stat.h"
#include "launcher/base/fd.h"
#include "launcher/base/strings.h"

namespace trainrun::agent {
namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};
using Directory = std::unique_ptr<DIR, CloseDirectory>;

std::string read_proc(const std::string& path) { return read_file(path, 1u << 20).value_or(std::string{}); }

std::vector<pid_t> numbers_in(const char* path) {
  std::vector<pid_t> numbers;
  const Directory directory(::opendir(path));
  if (!directory) return numbers;
  while (const dirent* entry = ::readdir(directory.get())) {
    if (const auto number = parse_unsigned<unsigned>(entry->d_name))
      numbers.push_back(static_cast<pid_t>(*number));
  }
  return numbers;
}

// Kernels with CONFIG_PROC_CHILDREN list them directly: O(descendants) instead of O(processes of the host).
bool children_file_exists() {
  static const bool exists =
      ::access(fmt::format("/proc/self/task/{}/children", ::getpid()).c_str(), R_OK) == 0;
  return exists;
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto thread : threads_of(parent)) {
    const auto list = read_proc(fmt::format("/proc/{}/task/{}/children", parent, thread));
    for (const auto word : split(list, ' ')) {
      if (const auto pid = parse_unsigned<unsigned>(trim(word))) children.push_back(static_cast<pid_t>(*pid));
    }
  }
  return children;
}

std::unordered_map<pid_t, std::vector<pid_t>> all_children() {
  std::unordered_map<pid_t, std::vector<pid_t>> children;
  for (const auto pid : all_processes()) {
    if (const auto stat = process_stat(pid)) children[stat->parent].push_back(pid);
  }
  return children;
}

void remove_at(int parent, const char* name, int depth, std::optional<dev_t> device = std::nullopt) {
  if (::unlinkat(parent, name, 0) == 0 || errno == ENOENT) return;
  Fd fd(::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  if (fd && ::fstat(fd.get(), &info) != 0) return;
  if (fd && device && *device != info.st_dev) return;  // a mount in it is not ours
  if (fd && depth > 0) {
    const int number = fd.get();
    const Directory directory(::fdopendir(fd.release()));
    while (const dirent* entry = directory ? ::readdir(directory.get()) : nullptr) {
      const std::string_view child = entry->d_name;
      if (child != "." && child != "..") remove_at(number, entry->d_name, depth - 1, info.st_dev);
    }
  }
  ::unlinkat(parent, name, AT_REMOVEDIR);
}

}  // namespace

ProcessTree::ProcessTree() {
  if (!children_file_exists()) all_ = all_children();
}

std::vector<pid_t> ProcessTree::children(pid_t parent) const {
  if (!all_) return children_of(parent);
  const auto it = all_->find(parent);
  return it == all_->end() ? std::vector<pid_t>{} : it->second;
}

std::vector<pid_t> ProcessTree::descendants(pid_t root) const {
  std::vector<pid_t> found;
  std::set<pid_t> seen{root};
  std::vector<pid_t> open{root};
  while (!open.empty()) {
    const auto pid = open.back();
    open.pop_back();
    for (const auto child : children(pid)) {
      if (!seen.insert(child).second) continue;
      found.push_back(child);
      open.push_back(child);
    }
  }
  return found;
}

std::vector<pid_t> threads_of(pid_t process) {
  return numbers_in(fmt::format("/proc/{}/task", process).c_str());
}

std::vector<pid_t> all_processes() { return numbers_in("/proc"); }

std::vector<pid_t> descendants(pid_t root) { return ProcessTree().descendants(root); }

std::size_t signal_all(const std::function<std::vector<pid_t>()>& look, int number) {
  std::set<pid_t> reached;
  for (int pass = 0; pass < 100; ++pass) {
    bool news = false;
    for (const auto pid : look()) {
      if (!reached.insert(pid).second) continue;
      // Our own descendants: nobody but us or their parents among them reaps them, so the number is still
      // theirs.
      if (::kill(pid, number) == 0) news = true;
    }
    if (!news || number != SIGKILL) break;
  }
  return reached.size();
}

std::size_t signal_descendants(int number) {
  return signal_all([] { return descendants(::getpid()); }, number);
}

std::set<std::string> names_of(const std::vector<pid_t>& processes, std::size_t most) {
  std::set<std::string> names;
  for (const auto pid : processes) {
    if (names.size() == most) break;
    if (const auto name = read_file(fmt::format("/proc/{}/comm", pid), 64)) names.emplace(trim(*name));
  }
  return names;
}

std::vector<pid_t> beyond_reach(const std::vector<pid_t>& processes) {
  std::vector<pid_t> found;
  for (const auto pid : processes) {
    if (::kill(pid, 0) == 0 || errno != EPERM) continue;
    if (const auto stat = process_stat(pid); stat && stat->lives()) found.push_back(pid);
  }
  return found;
}

bool no_children_left() {
  siginfo_t info{};
  return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD;
}

void remove_tree(const std::string& path) {
  if (!path.empty()) remove_at(AT_FDCWD, path.c_str(), 8);
}

}  // namespace trainrun::agent
