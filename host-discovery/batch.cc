#include "host-discovery/batch.h"

#include <fmt/format.h>

#include <set>
#include <string>

#include "host-discovery/host_grammar.h"
#include "host-discovery/hostfile.h"
#include "host-discovery/hostlist.h"
#include "launcher/base/strings.h"

namespace trainrun::hosts {
namespace {

constexpr std::string_view way_out =
    "name the hosts with -H, or ignore the batch system with --hosts-from none";

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!(text = trim(text)).empty()) {
    const auto end = std::min(text.find_first_of(" \t\r\n"), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return words;
}

Result<Host> counted_host(std::string_view name, std::string_view slots) {
  if (auto good = check_name(name); !good) return tl::unexpected(good.error());
  const auto count = parse_unsigned<std::uint16_t>(slots);
  if (!count || *count == 0) {
    return fail(Code::config, fmt::format("{} is no number of slots", quoted(slots)), std::string(way_out));
  }
  return Host{.name = std::string(name), .slots = *count, .slots_given = true};
}

tl::unexpected<Error> at(std::string_view where, Error error) {
  error.message = fmt::format("{}: {}", where, error.message);
  if (error.hint.empty()) error.hint = way_out;
  return tl::unexpected(std::move(error));
}

}  // namespace

Result<std::vector<Host>> hosts_by_line(std::string_view content, std::string_view where) {
  auto hosts = parse_hostfile(content, where);
  if (!hosts) return hosts;
  std::set<std::string_view> names;
  for (const auto& host : *hosts) names.insert(host.name);
  if (names.size() == hosts->size()) return hosts;
  for (auto& host : *hosts) host.slots_given = true;
  return hosts;
}

Result<std::vector<Host>> hosts_by_word(std::string_view text, std::string_view where) {
  std::string lines;
  for (const auto word : words_of(text)) lines.append(word).push_back('\n');
  return hosts_by_line(lines, where);
}

Result<std::vector<Host>> hosts_by_pair(std::string_view text, std::string_view where) {
  const auto words = words_of(text);
  if (words.empty() || words.size() % 2 != 0 || words.size() / 2 > most_hosts) {
    return at(where,
              {Code::config,
               fmt::format("{} is not a list of hosts and numbers, as in: n1 4 n2 4", quoted(text)), ""});
  }
  std::vector<Host> hosts;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    auto host = counted_host(words[i], words[i + 1]);
    if (!host) return at(where, host.error());
    hosts.push_back(std::move(*host));
  }
  return hosts;
}

Result<std::vector<Host>> hosts_of_grid_engine(std::string_view content, std::string_view where) {
  std::vector<Host> hosts;
  std::size_t number = 0;
  for (const auto line : split(content, '\n')) {
    ++number;
    const auto words = words_of(line);
    if (words.empty()) continue;
    auto host = counted_host(words[0], words.size() > 1 ? words[1] : std::string_view{});
    if (!host) return at(fmt::format("{}:{}", where, number), host.error());
    if (hosts.size() == most_hosts)
      return at(where, {Code::config, fmt::format("more than {} hosts", most_hosts), ""});
    hosts.push_back(std::move(*host));
  }
  if (hosts.empty()) return at(where, {Code::config, "names no host", ""});
  return hosts;
}

}  // namespace trainrun::hosts
