#include "launcher/agent/predecessor.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "launcher/agent/process_stat.h"
#include "launcher/agent/process_tree.h"
#include "launcher/base/strings.h"
#include "launcher/base/time.h"

namespace trainrun::agent {
namespace {

using std::chrono::steady_clock;

constexpr Duration patience = seconds(1);
constexpr int passes = 20;  // a process may fork between the look and the kill

// Within this, process ids mean the same.
std::string this_machine() {
  char space[64]{};
  const auto size = ::readlink("/proc/self/ns/pid", space, sizeof space - 1);
  const auto boot = read_file("/proc/sys/kernel/random/boot_id", 100);
  if (!boot || size <= 0) return {};
  return fmt::format("{}/{}", trim(*boot), space);
}

std::string life_of(const std::string& directory) { return directory + "/agent"; }

bool is_ours(const std::string& directory) {
  struct stat info {};
  return ::lstat(directory.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid();
}

bool locked(const Fd& file) { return ::flock(file.get(), LOCK_EX | LOCK_NB) == 0; }

// By a handle, and looked at once more after that: while the lock is held, the number is that of its holder.
bool kill_holder(const Fd& file, pid_t pid) {
  const Fd handle(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U)));
  if (locked(file)) return true;
  if (!handle || ::syscall(SYS_pidfd_send_signal, handle.get(), SIGKILL, nullptr, 0U) != 0) return false;
  pollfd end{handle.get(), POLLIN, 0};
  ::poll(&end, 1, static_cast<int>(std::chrono::duration_cast<milliseconds>(patience).count()));
  return locked(file);
}

// The lock of an agent that is dead now, ours now; nothing if it is a neighbour, or if that cannot be known
// from here.
Fd take_lock(const std::string& directory, HostIndex host) {
  Fd file(::open(life_of(directory).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  const auto text = read_file(life_of(directory), 300);
  if (!file || !text) return {};
  // Written under the lock: without all of it, it is not held yet.
  const auto words = split(trim(*text), ' ');
  if (words.size() != 3 || words[0].empty() || words[0] != this_machine()) return {};
  if (locked(file)) return file;
  const auto pid = parse_unsigned<std::uint32_t>(words[2]);
  if (words[1] != std::to_string(host.value) || !pid || *pid < 2) return {};
  return kill_holder(file, static_cast<pid_t>(*pid)) ? std::move(file) : Fd{};
}

// By a handle, so that the number cannot have become another process's between look and kill.
Fd kill_if_marked(pid_t pid, const std::string& directory) {
  Fd handle(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U)));
  if (!handle) return {};
  const auto key_file = environment_value(pid, "TRAINRUN_KEY_FILE");
  if (!key_file || !key_file->starts_with(directory + "/")) return {};
  if (::syscall(SYS_pidfd_send_signal, handle.get(), SIGKILL, nullptr, 0U) != 0) return {};
  return handle;
}

void await_ends(std::vector<Fd>& handles, Instant due) {
  for (const auto& handle : handles) {
    const auto left = std::chrono::duration_cast<milliseconds>(due - steady_clock::now()).count();
    pollfd end{handle.get(), POLLIN, 0};
    ::poll(&end, 1, static_cast<int>(std::max<std::int64_t>(left, 0)));
  }
}

std::size_t kill_processes_of(const std::string& directory) {
  std::size_t killed = 0;
  const auto due = steady_clock::now() + patience;
  for (int pass = 0; pass < passes && steady_clock::now() < due; ++pass) {
    std::vector<Fd> handles;
    for (const auto pid : all_processes()) {
      if (auto handle = kill_if_marked(pid, directory)) handles.push_back(std::move(handle));
    }
    if (handles.empty()) break;
    killed += handles.size();
    await_ends(handles, due);
  }
  return killed;
}

}  // namespace

Fd claim_directory(const std::string& path, HostIndex host) {
  Fd file(::open(life_of(path).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  const auto text = fmt::format("{} {} {}\n", this_machine(), host.value, ::getpid());
  if (!file || !locked(file) || !write_all(file.get(), text)) return {};
  return file;
}

Cleared clear_after_predecessors(const std::string& base, std::string_view job_id, HostIndex host) {
  Cleared cleared;
  const auto prefix = "trainrun." + std::string(job_id) + ".";
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(base.c_str()), ::closedir);
  while (const dirent* entry = listing ? ::readdir(listing.get()) : nullptr) {
    if (!std::string_view(entry->d_name).starts_with(prefix)) continue;
    const auto directory = base + "/" + entry->d_name;
    if (!is_ours(directory)) continue;
    const auto lock = take_lock(directory, host);
    if (!lock) continue;
    cleared.processes += kill_processes_of(directory);
    remove_tree(directory);
    ++cleared.directories;
  }
  return cleared;
}

}  // namespace trainrun::agent
