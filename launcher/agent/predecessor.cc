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
#include <optional>
#include <utility>
#include <vector>

#include "launcher/agent/job_directory.h"
#include "launcher/agent/own_place.h"
#include "launcher/agent/process_stat.h"
#include "launcher/agent/process_tree.h"
#include "launcher/agent/watcher.h"
#include "launcher/base/strings.h"
#include "launcher/base/time.h"

namespace trainrun::agent {
namespace {

using std::chrono::steady_clock;

constexpr Duration time_limit = seconds(1);
constexpr int passes = 20;  // a process may fork between the look and the kill

// Within this, process ids mean the same.
std::string this_machine() {
  if (boot_id().empty() || pid_namespace().empty()) return {};
  return boot_id() + "/" + pid_namespace();
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
  ::poll(&end, 1, static_cast<int>(std::chrono::duration_cast<milliseconds>(time_limit).count()));
  return locked(file);
}

// What a claim says.
struct Life {
  std::string machine, host;
  pid_t agent = 0, watcher = 0;
  std::uint64_t watcher_started = 0;
};

std::optional<Life> read_life(const std::string& directory) {
  const auto text = read_file(life_of(directory), 300).value_or("");
  const auto words = split(trim(text), ' ');
  if (words.size() != 5 || words[0].empty()) return std::nullopt;
  const auto agent = parse_unsigned<std::uint32_t>(words[2]),
             watcher = parse_unsigned<std::uint32_t>(words[3]);
  const auto started = parse_unsigned<std::uint64_t>(words[4]);
  if (!agent || *agent < 2 || !watcher || !started) return std::nullopt;
  return Life{std::string(words[0]), std::string(words[1]), static_cast<pid_t>(*agent),
              static_cast<pid_t>(*watcher), *started};
}

// Its agent is dead, so a watcher that runs is about to end the rest and go. One that was stopped as well
// goes on for that: it alone finds daemons with environments of their own. One that does not go is killed.
void end_watcher(const Life& life) {
  const Fd handle(static_cast<int>(::syscall(SYS_pidfd_open, life.watcher, 0U)));
  const auto found = process_stat(life.watcher);
  const auto name = read_file(fmt::format("/proc/{}/comm", life.watcher), 100);
  if (!handle || !found || found->started != life.watcher_started || !name || trim(*name) != watcher_name)
    return;
  for (const int number : {SIGCONT, SIGKILL}) {
    if (::syscall(SYS_pidfd_send_signal, handle.get(), number, nullptr, 0U) != 0) return;
    pollfd end{handle.get(), POLLIN, 0};
    if (::poll(&end, 1, static_cast<int>(std::chrono::duration_cast<milliseconds>(time_limit).count())) > 0)
      return;
  }
}

// The lock of an agent that is dead now, ours now; nothing if it is a neighbour, or if that cannot be known
// from here.
Fd take_lock(const std::string& directory, HostIndex host) {
  Fd file(::open(life_of(directory).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  // Written under the lock: without all of it, it is not held yet.
  const auto life = read_life(directory);
  if (!file || !life || life->machine != this_machine()) return {};
  if (!locked(file) && (life->host != std::to_string(host.value) || !kill_holder(file, life->agent)))
    return {};
  end_watcher(*life);
  return file;
}

bool is_marked(pid_t pid, const std::string& directory) {
  const auto key_file = environment_value(pid, "TRAINRUN_KEY_FILE");
  return key_file && key_file->starts_with(directory + "/");
}

// By a handle, so that the number cannot have become another process's between look and kill.
Fd kill_if_marked(pid_t pid, const std::string& directory) {
  Fd handle(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U)));
  if (!handle) return {};
  if (!is_marked(pid, directory)) return {};
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
  const auto due = steady_clock::now() + time_limit;
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

// The names in `base` that begin so, and are directories of ours.
std::vector<std::string> own_directories(const std::string& base, std::string_view prefix) {
  std::vector<std::string> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(base.c_str()), ::closedir);
  while (const dirent* entry = listing ? ::readdir(listing.get()) : nullptr) {
    if (!std::string_view(entry->d_name).starts_with(prefix)) continue;
    auto directory = base + "/" + entry->d_name;
    if (is_ours(directory)) found.push_back(std::move(directory));
  }
  return found;
}

bool nobody_lives_who_would(const std::string& directory) {
  const Fd file(::open(life_of(directory).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  // Written under the lock: without all of it, it is not held yet.
  const auto life = read_life(directory);
  if (!file || !life || life->machine != this_machine() || !locked(file)) return false;
  const auto watcher = process_stat(life->watcher);
  return !watcher || watcher->started != life->watcher_started || !watcher->lives();
}

void clear(const std::string& directory, Cleared& cleared) {
  cleared.processes += kill_processes_of(directory);
  remove_job_directory(directory);
  ++cleared.directories;
}

}  // namespace

Fd claim_directory(const std::string& path, HostIndex host) {
  Fd file(::open(life_of(path).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  const pid_t watcher = ::getppid();
  const auto stat = process_stat(watcher);
  const auto text = fmt::format("{} {} {} {} {}\n", this_machine(), host.value, ::getpid(), watcher,
                                stat ? stat->started : 0);
  if (!file || !locked(file) || !write_all(file.get(), text)) return {};
  return file;
}

Cleared clear_after_predecessors(const std::string& base, std::string_view job_id, HostIndex host) {
  Cleared cleared;
  for (const auto& directory : own_directories(base, "trainrun." + std::string(job_id) + ".")) {
    const auto lock = take_lock(directory, host);
    if (!lock) continue;
    clear(directory, cleared);
  }
  return cleared;
}

Cleared clear_after_dead_jobs(const std::string& base, std::string_view own_job_id) {
  Cleared cleared;
  const auto own = base + "/trainrun." + std::string(own_job_id) + ".";
  for (const auto& directory : own_directories(base, "trainrun."))
    if (!directory.starts_with(own) && nobody_lives_who_would(directory)) clear(directory, cleared);
  return cleared;
}

Cleared clear_after_dead_agents(const std::string& base, std::string_view job_id) {
  Cleared cleared;
  for (const auto& directory : own_directories(base, "trainrun." + std::string(job_id) + "."))
    if (nobody_lives_who_would(directory)) clear(directory, cleared);
  return cleared;
}

}  // namespace trainrun::agent
