#include "launcher/agent/process_stat.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>
#include <vector>

#include "launcher/base/fd.h"
#include "launcher/base/strings.h"

namespace trainrun::agent {

std::optional<ProcessStat> parse_stat(std::string_view text) {
  // "pid (name) state ppid ...": the name may hold anything, so count from its last parenthesis.
  const auto after = text.rfind(')');
  if (after == std::string_view::npos) return std::nullopt;
  const auto words = split(text.substr(after + 1), ' ');
  if (words.size() < 21 || words[1].size() != 1) return std::nullopt;
  // proc(5) counts fields from 1; the third, the state, is words[1].
  const auto field = [&](std::size_t number) {
    return parse_unsigned<std::uint64_t>(words[number - 2]).value_or(0);
  };
  ProcessStat stat;
  stat.state = words[1].front();
  stat.parent = static_cast<pid_t>(field(4));
  stat.session = static_cast<pid_t>(field(6));
  constexpr std::uint64_t pf_exiting = 4;  // of the kernel's own flags
  stat.exiting = (field(9) & pf_exiting) != 0;
  stat.cpu_ticks = field(14) + field(15) + field(16) + field(17);
  stat.threads = field(20);
  stat.started = field(22);
  return stat;
}

std::optional<ProcessStat> process_stat(pid_t pid) {
  const auto text = read_file(fmt::format("/proc/{}/stat", pid), 65536);
  return text ? parse_stat(*text) : std::nullopt;
}

SignalSets parse_signal_sets(std::string_view text) {
  SignalSets sets;
  for (const auto line : split(text, '\n')) {
    for (const auto& [name, set] : {std::pair("SigBlk:", &sets.blocked), std::pair("SigIgn:", &sets.ignored),
                                    std::pair("SigCgt:", &sets.caught)}) {
      if (!line.starts_with(name)) continue;
      const auto digits = trim(line.substr(std::string_view(name).size()));
      std::from_chars(digits.data(), digits.data() + digits.size(), *set, 16);
    }
  }
  return sets;
}

SignalSets signal_sets(pid_t pid) {
  return parse_signal_sets(read_file(fmt::format("/proc/{}/status", pid), 65536).value_or(std::string{}));
}

std::optional<std::string_view> value_in(std::string_view environment, std::string_view name) {
  for (const auto word : split(environment, '\0'))
    if (word.size() > name.size() && word[name.size()] == '=' && word.starts_with(name))
      return word.substr(name.size() + 1);
  return std::nullopt;
}

std::optional<std::string> environment_value(pid_t pid, std::string_view name) {
  const auto text = read_file(fmt::format("/proc/{}/environ", pid), 16u << 20);
  const auto value = text ? value_in(*text, name) : std::nullopt;
  return value ? std::optional(std::string(*value)) : std::nullopt;
}

std::optional<WorkerId> mark_in(std::string_view environment) {
  const auto value = value_in(environment, "TRAINRUN_WORKER");
  const auto number = value ? parse_unsigned<std::uint32_t>(*value) : std::nullopt;
  return number ? std::optional(WorkerId{*number}) : std::nullopt;
}

std::optional<WorkerId> worker_mark(pid_t pid) {
  const auto text = read_file(fmt::format("/proc/{}/environ", pid), 16u << 20);
  return text ? mark_in(*text) : std::nullopt;
}

}  // namespace trainrun::agent
