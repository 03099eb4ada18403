#include "launcher/agent/out_of_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "launcher/base/fd.h"
#include "launcher/base/strings.h"

namespace trainrun::agent {
namespace {

struct Counter {
  std::string file;
  std::uint64_t kills = 0;
};

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
    const auto text = read_file(file, 65536);
    if (const auto kills = text ? kills_in(*text) : std::nullopt) return Counter{file, *kills};
  }
  return std::nullopt;
}

constexpr std::size_t most_victims = 1024;
constexpr std::string_view killed = "Killed process ";

}  // namespace

std::optional<std::uint64_t> kills_in(std::string_view counters) {
  for (const auto line : split(counters, '\n')) {
    if (line.starts_with("oom_kill ")) return parse_unsigned<std::uint64_t>(line.substr(9));
  }
  return std::nullopt;
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

void OutOfMemory::remember() {
  if (const auto counter = counter_of("self")) counters_[counter->file] = counter->kills;
  // Only root, or a kernel with dmesg_restrict=0, lets us read it. From here on, what was there before says
  // nothing about our workers and may be thousands of records.
  log_ = Fd(::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (log_) ::lseek(log_.get(), 0, SEEK_END);
}

// The kernel names its victims before it kills them.
void OutOfMemory::read_log() {
  char record[8192];
  for (int records = 0; log_ && records < 100000; ++records) {
    const ssize_t n = ::read(log_.get(), record, sizeof record);
    if (n < 0 && errno == EPIPE) continue;  // overwritten while we read: go on with the next
    if (n <= 0) return;
    auto victim = victim_in({record, static_cast<std::size_t>(n)});
    if (!victim) continue;
    if (victims_.size() >= most_victims) victims_.clear();
    victims_[victim->first] = std::move(victim->second);
  }
}

std::string OutOfMemory::evidence(pid_t pid) {
  read_log();
  if (const auto victim = victims_.extract(pid)) return "kernel: " + victim.mapped();
  const auto counter = counter_of(std::to_string(pid));
  if (!counter) return {};
  auto& known = counters_[counter->file];
  if (counter->kills <= known) return {};
  auto evidence = fmt::format("{}: oom_kill rose from {} to {}", counter->file, known, counter->kills);
  known = counter->kills;
  return evidence;
}

}  // namespace trainrun::agent
