#include "host-discovery/hostfile.h"

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <utility>

#include "host-discovery/host_line.h"
#include "host-discovery/hostlist.h"

namespace trainrun::hosts {

namespace {

constexpr std::size_t most_told = 5;

// One message, so that a file is mended once and not line by line.
tl::unexpected<Error> all_of(const std::vector<Error>& wrong) {
  auto message = wrong.front().message;
  for (std::size_t i = 1; i < wrong.size(); ++i) message += "; " + wrong[i].message;
  if (wrong.size() == most_told) message += "; there may be more";
  return fail(wrong.front().code, std::move(message), wrong.front().hint);
}

}  // namespace

Result<std::vector<Host>> parse_hostfile(std::string_view content, std::string_view path) {
  const auto at = [&](std::size_t line, const Error& error) {
    return fail(error.code, fmt::format("{}:{}: {}", path, line, error.message), error.hint);
  };
  if (content.size() > longest_text) {
    return fail(Code::config,
                fmt::format("{}: longer than {} MiB, which no host file is", path, longest_text >> 20));
  }
  if (content.starts_with("\xEF\xBB\xBF")) content.remove_prefix(3);

  std::vector<Host> hosts;
  std::vector<Error> wrong;  // with their places; the hint is that of the first
  const auto note = [&](std::size_t line, const Error& error) {
    wrong.push_back(at(line, error).value());
    return wrong.size() == most_told;
  };
  LineCutter cutter;
  std::size_t number = 0, comment_line = 0, unused = 0;
  for (auto rest = content; !rest.empty();) {
    ++number;
    const auto line = take_line(rest);
    if (!line) return at(number, line.error());
    const bool was_inside = cutter.inside_comment();
    auto words = cutter.cut(*line);
    if (cutter.inside_comment() && !was_inside) comment_line = number;
    if (words.empty()) continue;
    const bool none = take_zero(words.front());
    auto more = read_host_line(words, LineRules::file);
    if (!more) {
      if (note(number, more.error())) break;
      continue;
    }
    if (hosts.size() + more->size() > most_hosts) {
      return at(number, {Code::config, fmt::format("more than {} hosts", most_hosts)});
    }
    unused += std::erase_if(
        *more, [none](const Host& host) { return none || (host.slots_given && host.slots == 0); });
    hosts.insert(hosts.end(), std::make_move_iterator(more->begin()), std::make_move_iterator(more->end()));
  }
  if (!wrong.empty()) return all_of(wrong);
  if (cutter.inside_comment()) return at(comment_line, {Code::config, "'/*' without its '*/'"});
  if (hosts.empty())
    return fail(Code::config,
                fmt::format("{}: {}", path, unused > 0 ? "no host has a slot" : "names no host"),
                "write one host a line, as in: gpu1 slots=8");
  return hosts;
}

}  // namespace trainrun::hosts
