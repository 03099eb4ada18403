#include "launcher/agent/out_of_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "launcher/agent/own_place.h"
#include "launcher/base/strings.h"
#include "launcher/wire/evidence.h"

namespace trainrun::agent {
namespace {

struct Mount {
  std::string_view root, point;  // what of the hierarchy is shown, and where
};

// "36 25 0:31 ROOT POINT rw,... [optional fields] - TYPE SOURCE OPTIONS"; v1 names its controllers in the
// options.
std::optional<Mount> memory_hierarchy(std::string_view mountinfo, bool v2) {
  for (const auto line : split(mountinfo, '\n')) {
    if (line.find(" cgroup") == std::string_view::npos)
      continue;  // most are not, and it is read at each start
    const auto words = split(line, ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 10 || words.end() - dash < 4) continue;
    if (dash[1] != (v2 ? "cgroup2" : "cgroup")) continue;
    const auto options = split(dash[3], ',');
    if (v2 || std::find(options.begin(), options.end(), "memory") != options.end())
      return Mount{words[3], words[4]};
  }
  return std::nullopt;
}

struct MemoryGroup {
  bool v2;
  std::string_view path;  // in its hierarchy
};

// Of a /proc/PID/cgroup.
std::vector<MemoryGroup> memory_groups(std::string_view cgroups) {
  std::vector<MemoryGroup> groups;
  for (const auto line : split(cgroups, '\n')) {
    const auto parts = split(line, ':');
    if (parts.size() < 3) continue;
    const auto controllers = split(parts[1], ',');
    const bool v2 = parts[0] == "0";
    if (!v2 && std::find(controllers.begin(), controllers.end(), "memory") == controllers.end()) continue;
    // It may have a colon itself.
    groups.push_back({v2, line.substr(parts[0].size() + parts[1].size() + 2)});
  }
  return groups;
}

std::string counter_file(std::string_view point, std::string_view path, bool v2) {
  return std::string(point) + std::string(path) + (v2 ? "/memory.events" : "/memory.oom_control");
}

// What happened longer ago does not explain a death of now, unless the log names the dead.
constexpr Duration recent = seconds(10);
constexpr Duration remembered = seconds(60);
constexpr std::size_t most_victims = 1024;
constexpr std::string_view killed = "Killed process ", real_proc = "/proc";
// The log speaks of processes by their numbers in the first namespace, which is known by this name alone.
constexpr std::string_view first_namespace = "pid:[4026531836]";

bool numbers_are_the_kernels(const std::string& proc) {
  return (proc == real_proc ? pid_namespace() : link_in_proc(proc + "/self/ns/pid")) == first_namespace;
}

}  // namespace

std::optional<std::uint64_t> kills_in(std::string_view counters) {
  for (const auto line : split(counters, '\n')) {
    if (line.starts_with("oom_kill ")) return parse_unsigned<std::uint64_t>(line.substr(9));
  }
  return std::nullopt;
}

std::vector<std::string> counter_files(std::string_view cgroups, std::string_view mountinfo) {
  std::vector<std::string> files;
  for (const auto& [v2, whole] : memory_groups(cgroups)) {
    const auto mount = memory_hierarchy(mountinfo, v2);
    if (!mount) continue;
    // A path outside of what is shown: this process's own part is all that can be seen.
    auto path = whole;
    if (mount->root != "/") {
      const bool shown = path == mount->root || path.starts_with(std::string(mount->root) + "/");
      path = shown ? path.substr(mount->root.size()) : "";
    }
    if (path == "/" || path.find("/../") != std::string_view::npos) path = "";
    files.push_back(counter_file(mount->point, path, v2));
  }
  return files;
}

std::vector<std::string> usual_counter_files(std::string_view cgroups) {
  std::vector<std::string> files;
  for (const auto& [v2, path] : memory_groups(cgroups))
    if (path.find("/../") == std::string_view::npos)
      files.push_back(
          counter_file(v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory", path == "/" ? "" : path, v2));
  return files;
}

std::optional<std::pair<pid_t, std::string>> victim_in(std::string_view record) {
  const auto name = record.find(killed);
  if (name == std::string_view::npos) return std::nullopt;
  const auto number = record.substr(name + killed.size());
  const auto pid = parse_unsigned<std::uint32_t>(number.substr(0, number.find(' ')));
  if (!pid) return std::nullopt;
  const auto start = record.find(';');
  const auto line = trim(record.substr(start == std::string_view::npos ? 0 : start + 1, 200));
  return std::pair(static_cast<pid_t>(*pid), std::string(line.substr(0, line.find('\n'))));
}

bool tells_of_sigkill(int exit_code) { return exit_code == 128 + SIGKILL || exit_code == 256 - SIGKILL; }

OutOfMemory::OutOfMemory(std::string proc, std::string log)
    : proc_(std::move(proc)), log_path_(std::move(log)) {}

std::optional<OutOfMemory::Counter> OutOfMemory::counter_of(const std::string& process) const {
  const auto cgroups = read_file(proc_ + "/" + process + "/cgroup", 65536).value_or(std::string{});
  const auto first_of = [](std::vector<std::string> files) -> std::optional<Counter> {
    for (auto& file : files) {
      const auto text = read_file(file, 65536);
      if (const auto kills = text ? kills_in(*text) : std::nullopt) return Counter{std::move(file), *kills};
    }
    return std::nullopt;
  };
  if (proc_ == real_proc)
    if (auto usual = first_of(usual_counter_files(cgroups))) return usual;
  return first_of(
      counter_files(cgroups, read_file(proc_ + "/self/mountinfo", 1u << 20).value_or(std::string{})));
}

void OutOfMemory::remember(Instant now) {
  if (const auto counter = counter_of("self")) counters_[counter->file] = {counter->kills, 0, now};
  if (!numbers_are_the_kernels(proc_)) return;
  // Only root, or a kernel with dmesg_restrict=0, lets us read it. From here on, what was there before says
  // nothing about our workers and may be thousands of records.
  log_ = Fd(::open(log_path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (log_) ::lseek(log_.get(), 0, SEEK_END);
}

void OutOfMemory::look(Instant now) {
  read_log(now);
  std::erase_if(victims_, [now](const auto& each) { return now - each.second.at > remembered; });
  for (auto& [file, known] : counters_) {
    const auto text = read_file(file, 65536);
    if (const auto kills = text ? kills_in(*text) : std::nullopt) count(known, *kills, now);
  }
}

// The kernel names its victims before it kills them.
void OutOfMemory::read_log(Instant now) {
  char record[8192];
  for (int records = 0; log_ && records < 100000; ++records) {
    const ssize_t n = ::read(log_.get(), record, sizeof record);
    if (n < 0 && errno == EPIPE) {  // overwritten while we read: go on with the next
      log_torn_ = now;
      continue;
    }
    if (n <= 0) return;
    auto victim = victim_in({record, static_cast<std::size_t>(n)});
    if (!victim) continue;
    if (victims_.size() >= most_victims) victims_.clear();
    victims_[victim->first] = {std::move(victim->second), now};
  }
}

std::string OutOfMemory::evidence(pid_t pid, Instant now) {
  read_log(now);
  if (const auto victim = victims_.extract(pid))
    return std::string(wire::kernel_named_it) + victim.mapped().words;
  if (log_ && now - log_torn_ > recent) return {};
  return risen(pid, now);
}

std::string OutOfMemory::evidence_within(pid_t pid, Instant now) {
  read_log(now);
  for (const auto& [victim, told] : victims_) {
    if (now - told.at > recent) continue;
    auto words = "the kernel has just killed a process: " + told.words;
    victims_.erase(victim);  // one death explains one end
    return words;
  }
  return log_ && now - log_torn_ > recent ? std::string() : risen(pid, now);
}

std::string OutOfMemory::risen(pid_t pid, Instant now) {
  auto own = rise(std::to_string(pid), now);
  // The kernel may have moved the dead one to the root group.
  return own.empty() ? rise("self", now) : own;
}

void OutOfMemory::count(Kills& known, std::uint64_t kills, Instant now) const {
  if (kills <= known.all) return;
  known.latest = kills - known.all + (now - known.at > recent ? 0 : known.latest);
  known.all = kills;
  known.at = now;
}

std::string OutOfMemory::rise(const std::string& process, Instant now) {
  const auto counter = counter_of(process);
  if (!counter) return {};
  auto& known = counters_[counter->file];
  count(known, counter->kills, now);
  if (known.latest == 0 || now - known.at > recent) return {};
  return fmt::format("the kernel has just killed {} in this cgroup for want of memory (oom_kill in {})",
                     counted(static_cast<std::int64_t>(known.latest), "process"), counter->file);
}

}  // namespace trainrun::agent
