#include "host-discovery/hostlist.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <optional>

#include "host-discovery/host_grammar.h"
#include "launcher/base/strings.h"

namespace trainrun::hosts {
namespace {

constexpr std::size_t most_digits = 18;  // of a number in a range; fits 64 bits
constexpr std::size_t most_brackets = 16;

tl::unexpected<Error> bad(std::string_view item, std::string_view why) {
  return fail(Code::config, fmt::format("{}: {}", quoted(item), why),
              "ranges are written as in node[01-08,11]");
}

std::optional<std::uint64_t> range_number(std::string_view digits) {
  if (digits.size() > most_digits) return std::nullopt;
  return parse_unsigned<std::uint64_t>(digits);
}

// "01-03,7" -> 01 02 03 7. Every number is as wide as the lower end is written.
Result<std::vector<std::string>> expand_ranges(std::string_view item, std::string_view ranges) {
  std::vector<std::string> out;
  for (const auto range : split(ranges, ',')) {
    const auto dash = range.find('-');
    const auto low_text = range.substr(0, dash);
    const auto low = range_number(low_text);
    const auto high = dash == std::string_view::npos ? low : range_number(range.substr(dash + 1));
    if (!low || !high) {
      return bad(item, fmt::format("{} is neither a number nor two numbers joined by '-'", quoted(range)));
    }
    if (*low > *high) return bad(item, fmt::format("the range {} runs backwards", quoted(range)));
    if (*high - *low >= most_hosts || out.size() + (*high - *low) >= most_hosts) {
      return bad(item, fmt::format("more than {} hosts", most_hosts));
    }
    for (auto number = *low; number <= *high; ++number) {
      out.push_back(fmt::format("{:0{}}", number, low_text.size()));
    }
  }
  return out;
}

// literal[0] choice[0] literal[1] ... choice[n-1] literal[n]
struct Pattern {
  std::vector<std::string_view> literals;
  std::vector<std::vector<std::string>> choices;
};

Result<Pattern> read_pattern(std::string_view item) {
  Pattern pattern;
  std::size_t count = 1;
  for (auto rest = item;;) {
    const auto open = rest.find_first_of("[]");
    pattern.literals.push_back(rest.substr(0, open));
    if (open == std::string_view::npos) return pattern;
    if (rest[open] == ']') return bad(item, "']' without its '['");
    const auto close = rest.find_first_of("[]", open + 1);
    if (close == std::string_view::npos) return bad(item, "'[' without its ']'");
    if (rest[close] == '[') return bad(item, "brackets inside brackets");
    auto choices = expand_ranges(item, rest.substr(open + 1, close - open - 1));
    if (!choices) return tl::unexpected(choices.error());
    count *= choices->size();
    if (count > most_hosts) return bad(item, fmt::format("more than {} hosts", most_hosts));
    pattern.choices.push_back(std::move(*choices));
    if (pattern.choices.size() > most_brackets) return bad(item, "too many brackets");
    rest.remove_prefix(close + 1);
  }
}

}  // namespace

Result<std::vector<std::string>> expand_item(std::string_view item) {
  if (item.size() > longest_item) {
    return bad(item, fmt::format("longer than {} bytes", longest_item));
  }
  const auto pattern = read_pattern(item);
  if (!pattern) return tl::unexpected(pattern.error());

  const auto& choices = pattern->choices;
  std::vector<std::size_t> at(choices.size(), 0);  // an odometer
  std::vector<std::size_t> fastest_first;          // which wheel turns first
  if (!choices.empty()) fastest_first.push_back(choices.size() - 1);
  for (std::size_t i = 0; i + 1 < choices.size(); ++i) fastest_first.push_back(i);

  std::vector<std::string> names;
  for (;;) {
    std::string name(pattern->literals[0]);
    for (std::size_t i = 0; i < choices.size(); ++i) {
      name += choices[i][at[i]];
      name += pattern->literals[i + 1];
    }
    if (auto checked = check_name(name); !checked) return tl::unexpected(checked.error());
    names.push_back(std::move(name));
    std::size_t wheel = 0;
    for (; wheel < at.size(); ++wheel) {
      auto& position = at[fastest_first[wheel]];
      if (++position < choices[fastest_first[wheel]].size()) break;
      position = 0;
    }
    if (wheel == at.size()) return names;
  }
}

Result<std::vector<std::string>> expand_hostlist(std::string_view text) {
  if (text.size() > longest_text) {
    return fail(Code::config, fmt::format("a host list of more than {} bytes", longest_text));
  }
  std::vector<std::string> names;
  std::size_t start = 0;
  bool inside = false;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c == '[') inside = true;
    if (c == ']') inside = false;
    const bool separator = c == ' ' || c == '\t' || c == '\n' || (c == ',' && !inside) || i == text.size();
    if (!separator) continue;
    if (i > start) {
      auto more = expand_item(text.substr(start, i - start));
      if (!more) return tl::unexpected(more.error());
      if (names.size() + more->size() > most_hosts) {
        return fail(Code::config, fmt::format("a host list of more than {} hosts", most_hosts));
      }
      names.insert(names.end(), std::make_move_iterator(more->begin()), std::make_move_iterator(more->end()));
    }
    start = i + 1;
  }
  return names;
}

std::string braces_as_ranges(std::string_view text) {
  if (text.size() > 256 || text.find('{') == std::string_view::npos ||
      text.find_first_of("[]$") != std::string_view::npos)
    return {};
  std::string out;
  bool inside = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '{' || c == '}') {
      if (inside == (c == '{')) return {};
      inside = !inside;
      out += inside ? '[' : ']';
    } else if (inside && text.substr(i, 2) == "..") {
      out += '-';
      ++i;
    } else if (inside && c != ',' && (c < '0' || c > '9')) {
      return {};
    } else {
      out += c;
    }
  }
  return inside ? std::string() : out;
}

}  // namespace trainrun::hosts
