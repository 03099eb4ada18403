#include "host-discovery/host_list.h"

#include <fmt/format.h>

#include <iterator>
#include <string>

#include "host-discovery/host_grammar.h"
#include "host-discovery/hostlist.h"
#include "launcher/base/strings.h"
#include "launcher/base/utf8.h"

namespace trainrun::hosts {
namespace {

// Cuts at the commas outside brackets.
std::vector<std::string_view> split_items(std::string_view text) {
  std::vector<std::string_view> items;
  std::size_t start = 0;
  bool inside = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[') inside = true;
    if (text[i] == ']') inside = false;
    if (text[i] != ',' || inside) continue;
    items.push_back(text.substr(start, i - start));
    start = i + 1;
  }
  items.push_back(text.substr(start));
  return items;
}

std::string_view trim_blanks(std::string_view text) {  // a newline is no blank here: it has no business in -H
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// "n1 n2" with commas; empty where the words are no hosts.
std::string with_commas(std::string_view item) {
  std::string out;
  if (item.size() > 256) return out;
  for (const auto word : split(item, ' ')) {
    if (trim(word).empty()) continue;
    if (!parse_host_item(trim(word))) return {};
    out += out.empty() ? "" : ",";
    out += trim(word);
  }
  return out;
}

}  // namespace

Result<std::vector<Host>> parse_host_list(std::string_view text, std::string_view origin) {
  constexpr std::string_view hint = "write hosts as in gpu1:8,gpu2:8";
  if (text.size() > longest_text) {
    return fail(Code::config, fmt::format("{}: longer than {} bytes", origin, longest_text),
                "put the hosts into a file, and name it with --hostfile");
  }
  if (const auto ranges = braces_as_ranges(text); !ranges.empty()) {
    return fail(Code::config,
                fmt::format("{}: {}: braces are expanded by some shells, and not here", origin, quoted(text)),
                fmt::format("write {} (in quotes, for the shell)", printable(shell_quote(ranges))));
  }
  auto items = split_items(text);
  if (items.size() > 1 && trim_blanks(items.back()).empty()) items.pop_back();
  std::vector<Host> hosts;
  for (const auto raw : items) {
    const auto item = trim_blanks(raw);
    if (item.empty()) {
      return fail(Code::config,
                  items.size() == 1 ? fmt::format("{}: no host is named", origin)
                                    : fmt::format("{}: {}: nothing between two commas", origin, quoted(text)),
                  std::string(hint));
    }
    auto more = parse_host_item(item);
    const auto listed = more ? std::string() : with_commas(item);
    if (listed.find(',') != std::string::npos) {
      return fail(Code::config, fmt::format("{}: {}: a space between two hosts", origin, quoted(item)),
                  fmt::format("separate hosts with commas: {}", listed));
    }
    if (!more) {
      return fail(more.error().code, fmt::format("{}: {}", origin, more.error().message), more.error().hint);
    }
    if (hosts.size() + more->size() > most_hosts) {
      return fail(Code::config, fmt::format("{}: more than {} hosts", origin, most_hosts));
    }
    hosts.insert(hosts.end(), std::make_move_iterator(more->begin()), std::make_move_iterator(more->end()));
  }
  return hosts;
}

}  // namespace trainrun::hosts
