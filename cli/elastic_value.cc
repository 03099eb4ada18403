#include "cli/elastic_value.h"

#include <algorithm>
#include <csignal>
#include <string>
#include <utility>

#include "host-discovery/host_grammar.h"
#include "launcher/base/strings.h"

namespace trainrun::cli {

namespace {

constexpr std::uint32_t most_hosts = 65536;
constexpr std::uint32_t most_restarts = 1'000'000;
constexpr std::size_t longest_command = 128 * 1024;  // the kernel's limit for one word of an argv
constexpr std::size_t longest_path = 4095;

}  // namespace

std::optional<HostRange> parse_host_range(std::string_view text) {
  const auto colon = text.find(':');
  const auto min = parse_unsigned<std::uint32_t>(text.substr(0, colon));
  const auto max =
      colon == std::string_view::npos ? min : parse_unsigned<std::uint32_t>(text.substr(colon + 1));
  if (!min || !max || *min < 1 || *min > *max || *max > most_hosts) return std::nullopt;
  return HostRange{static_cast<int>(*min), static_cast<int>(*max)};
}

std::optional<RestartLimit> parse_restart_limit(std::string_view text) {
  const auto slash = text.find('/');
  const auto count = parse_unsigned<std::uint32_t>(text.substr(0, slash));
  if (!count || *count > most_restarts) return std::nullopt;
  RestartLimit limit;
  limit.count = static_cast<int>(*count);
  if (slash == std::string_view::npos) return limit;
  const auto window = parse_duration(text.substr(slash + 1));
  if (!window || *window <= Duration::zero()) return std::nullopt;
  limit.window = *window;
  return limit;
}

std::optional<TimeRange> parse_time_range(std::string_view text) {
  const auto cut = text.find_first_of(" ,");
  if (cut == std::string_view::npos) return std::nullopt;
  const auto min = parse_duration(text.substr(0, cut));
  const auto max = parse_duration(trim(text.substr(cut + 1)));
  if (!min || !max || *min > *max) return std::nullopt;
  return TimeRange{*min, *max};
}

std::optional<int> parse_signal(std::string_view text) {
  constexpr std::pair<std::string_view, int> names[] = {{"TERM", SIGTERM}, {"INT", SIGINT},
                                                        {"HUP", SIGHUP},   {"QUIT", SIGQUIT},
                                                        {"USR1", SIGUSR1}, {"USR2", SIGUSR2}};
  std::string word(text);
  std::transform(word.begin(), word.end(), word.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  if (word.starts_with("SIG")) word.erase(0, 3);
  for (const auto& [name, number] : names) {
    if (word == name) return number;
  }
  return std::nullopt;
}

std::optional<DiscoverySpec> parse_discovery(std::string_view text) {
  DiscoverySpec spec;
  if (text == "slurm") {
    spec.kind = DiscoveryKind::slurm;
    return spec;
  }
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto kind = text.substr(0, colon), source = trim(text.substr(colon + 1));
  std::size_t longest = longest_command;
  if (kind == "script") {
    spec.kind = DiscoveryKind::script;
  } else if (kind == "file") {
    spec.kind = DiscoveryKind::file;
    longest = longest_path;
  } else if (kind == "dns") {
    const auto host = hosts::parse_host_item(source);  // user and slots are allowed, as for -H
    if (!host || host->size() != 1) return std::nullopt;
    spec.kind = DiscoveryKind::dns;
  } else {
    return std::nullopt;
  }
  if (source.empty() || source.size() > longest) return std::nullopt;
  spec.source = source;
  return spec;
}

}  // namespace trainrun::cli
