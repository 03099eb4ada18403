#include "launcher/agent/out_of_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <optional>

#include "launcher/base/fd.h"
#include "launcher/base/strings.h"

namespace trainrun::agent {
namespace {

// Of the whole host, in all control groups and outside.
constexpr const char* all_kills = "/proc/vmstat";

struct Counter {
  std::string file;
  std::uint64_t kills = 0;
};

std::optional<std::uint64_t> kills_in(const std::string& file) {
  const auto text = read_file(file, 65536);
  if (!text) return std::nullopt;
  for (const auto line : split(*text, '\n')) {
    if (line.starts_with("oom_kill ")) return parse_unsigned<std::uint64_t>(line.substr(9));
  }
  return std::nullopt;
}

std::optional<Counter> counter_of(const std::string& process) {
  const auto cgroups = read_file("/proc/" + process + "/cgroup", 65536).value_or(std::string{});
  for (const auto line : split(cgroups, '\n')) {
    const auto parts = split(line, ':');
    if (parts.size() < 3) continue;
    const std::string path(parts[2]);
    std::string file;
    if (parts[1] == "memory") file = "/sys/fs/cgroup/memory" + path + "/memory.oom_control";
    if (parts[0] == "0") file = "/sys/fs/cgroup" + path + "/memory.events";
    if (file.empty()) continue;
    if (const auto kills = kills_in(file)) return Counter{file, *kills};
  }
  return std::nullopt;
}

// The kernel names its victim; only root, or a kernel with dmesg_restrict=0, lets us read it.
std::string kernel_line_about(pid_t pid) {
  const Fd log(::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!log) return {};
  const auto name = fmt::format("Killed process {} (", pid);
  std::string found;
  char record[8192];
  for (int records = 0; records < 100000; ++records) {
    const ssize_t n = ::read(log.get(), record, sizeof record);
    if (n < 0 && errno == EPIPE) continue;  // overwritten while we read: go on with the next
    if (n <= 0) break;
    const std::string_view text(record, static_cast<std::size_t>(n));
    if (text.find(name) == std::string_view::npos) continue;
    const auto start = text.find(';');
    found = std::string(trim(text.substr(start == std::string_view::npos ? 0 : start + 1, 200)));
    found = found.substr(0, found.find('\n'));
  }
  return found;
}

}  // namespace

void OutOfMemory::remember_counters() {
  if (const auto counter = counter_of("self")) counters_[counter->file] = counter->kills;
  kills_at_start_ = kills_in(all_kills);
}

std::string OutOfMemory::evidence(pid_t pid) {
  // The kernel counts before it kills. Its log may be thousands of records long, and somebody waits for the
  // restart: it is read only if anything was killed on this host.
  if (kills_at_start_ && kills_in(all_kills) == kills_at_start_) return {};
  std::string evidence = kernel_line_about(pid);
  if (!evidence.empty()) return "kernel: " + evidence;
  const auto counter = counter_of(std::to_string(pid));
  if (!counter) return {};
  auto& known = counters_[counter->file];
  if (counter->kills <= known) return {};
  evidence = fmt::format("{}: oom_kill rose from {} to {}", counter->file, known, counter->kills);
  known = counter->kills;
  return evidence;
}

}  // namespace trainrun::agent
