#include "host-discovery/host_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "host-discovery/hostlist.h"
#include "launcher/base/strings.h"

namespace trainrun::hosts {
namespace {

constexpr std::size_t longest_name = 253;
constexpr std::size_t longest_label = 63;
constexpr std::size_t longest_user = 32;
constexpr std::size_t longest_zone = 15;  // of an interface's name

// Of our own, since those of <cctype> depend on the locale.
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '-' || c == '_'; }

tl::unexpected<Error> bad(std::string_view text, std::string_view why, std::string_view hint) {
  return fail(Code::config, fmt::format("{}: {}", quoted(text), why), std::string(hint));
}

constexpr std::string_view item_hint =
    "write name, name:slots, user@name:slots, [IPv6 address]:slots or ssh://user@name:port";

// The groups of hex digits between colons; an IPv4 address may be the last and counts as two. Nothing when
// one is wrong.
std::optional<std::size_t> count_groups(std::string_view text, bool may_end_in_ipv4) {
  if (text.empty()) return 0;
  std::size_t count = 0;
  const auto groups = split(text, ':');
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const auto group = groups[i];
    if (may_end_in_ipv4 && i + 1 == groups.size() && is_ipv4(group)) {
      count += 2;
      continue;
    }
    if (group.empty() || group.size() > 4 || !std::all_of(group.begin(), group.end(), is_hex)) {
      return std::nullopt;
    }
    ++count;
  }
  return count;
}

struct Tail {
  std::string_view name;
  std::optional<std::string_view> number{};  // what follows the colon
};

// Splits `name:number`; the name may hold ranges, or be an IPv6 address in brackets, which are taken away.
Result<Tail> split_number(std::string_view item, std::string_view text) {
  const auto close = text.find(']');
  if (text.starts_with('[') && text.substr(0, close).find(':') != std::string_view::npos) {
    if (close == std::string_view::npos) return bad(item, "'[' without its ']'", item_hint);
    const Tail tail{text.substr(1, close - 1)};
    const auto rest = text.substr(close + 1);
    if (!is_ipv6(tail.name)) return bad(item, "not an IPv6 address between the brackets", item_hint);
    if (rest.empty()) return tail;
    if (!rest.starts_with(':')) return bad(item, "only ':' and a number may follow the brackets", item_hint);
    return Tail{tail.name, rest.substr(1)};
  }
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) return Tail{text};
  if (text.find(':', colon + 1) != std::string_view::npos) {
    // `fd00::5:8` could be eight slots on fd00::5 or one longer address: nobody should have to guess.
    if (is_ipv6(text)) {
      return bad(item, "an IPv6 address is written in brackets", fmt::format("write [{}]", text));
    }
    return bad(item, "more than one ':'", item_hint);
  }
  return Tail{text.substr(0, colon), text.substr(colon + 1)};
}

}  // namespace

bool is_ipv4(std::string_view text) {
  const auto parts = split(text, '.');
  return parts.size() == 4 && std::all_of(parts.begin(), parts.end(), [](std::string_view part) {
           return part.size() <= 3 && (part.size() == 1 || !part.starts_with('0')) &&
                  parse_unsigned<std::uint8_t>(part).has_value();
         });
}

bool is_ipv6(std::string_view text) {
  if (const auto percent = text.find('%'); percent != std::string_view::npos) {
    const auto zone = text.substr(percent + 1);
    const auto allowed = [](char c) { return is_word(c) || c == '.'; };
    if (zone.empty() || zone.size() > longest_zone || !std::all_of(zone.begin(), zone.end(), allowed)) {
      return false;
    }
    text = text.substr(0, percent);
  }
  if (text.size() > 45 || text.find(':') == std::string_view::npos) return false;
  const auto gap = text.find("::");
  if (gap == std::string_view::npos) return count_groups(text, true) == 8;
  const auto before = count_groups(text.substr(0, gap), false);
  const auto after = count_groups(text.substr(gap + 2), true);
  return before && after && *before + *after <= 7;
}

Result<void> check_name(std::string_view name) {
  constexpr std::string_view hint =
      "a host name has letters, digits, '.', '-' and '_', and begins with neither '.' nor '-'";
  if (is_ipv6(name)) return {};
  if (name.empty()) return bad(name, "an empty host name", hint);
  if (name.size() > longest_name) {
    return bad(name, fmt::format("a host name longer than {} characters", longest_name), hint);
  }
  for (const char c : name) {
    if (is_word(c) || c == '.') continue;
    const bool ascii = static_cast<unsigned char>(c) < 0x80;
    return bad(name,
               ascii ? fmt::format("{} cannot be in a host name", quoted(std::string_view(&c, 1)))
                     : std::string("only ASCII can be in a host name"),
               hint);
  }
  const auto labels = split(name.ends_with('.') ? name.substr(0, name.size() - 1) : name, '.');
  for (const auto label : labels) {
    if (label.empty()) return bad(name, "two dots, or a dot at the start", hint);
    if (label.size() > longest_label) {
      return bad(name, fmt::format("a part longer than {} characters", longest_label), hint);
    }
    if (label.starts_with('-') || label.ends_with('-')) {
      return bad(name, "a part that begins or ends with '-'", hint);
    }
  }
  // Resolvers would read 10.1 as 10.0.0.1 and 010.0.0.1 as 8.0.0.1.
  const bool numeric = std::all_of(name.begin(), name.end(), [](char c) { return is_digit(c) || c == '.'; });
  if (numeric && labels.size() > 1 && !is_ipv4(name)) return bad(name, "not an IPv4 address", hint);
  return {};
}

Result<void> check_user(std::string_view user) {
  const auto allowed = [](char c) { return is_word(c) || c == '.'; };
  if (user.empty() || user.size() > longest_user || user.starts_with('-') || user.starts_with('.') ||
      !std::all_of(user.begin(), user.end(), allowed)) {
    // Behind a colon stands what somebody takes for a place of a password.
    const auto colon = user.find(':');
    return bad(
        colon == std::string_view::npos ? std::string(user) : std::string(user.substr(0, colon)) + ":...",
        "not a user name",
        "a user name has 1 to 32 letters, digits, '.', '-' and '_', and begins with neither '.' nor '-'");
  }
  return {};
}

Result<std::vector<Host>> parse_host_item(std::string_view item) {
  if (item.empty()) return bad(item, "an empty host", item_hint);
  if (item.size() > longest_item) {
    return bad(item, fmt::format("longer than {} bytes", longest_item), item_hint);
  }
  auto rest = item;
  constexpr std::string_view scheme = "ssh://";
  const bool url = rest.starts_with(scheme);
  if (url) rest.remove_prefix(scheme.size());

  Host model;
  if (const auto at = rest.find('@'); at != std::string_view::npos) {
    model.user = rest.substr(0, at);
    if (auto checked = check_user(model.user); !checked) return tl::unexpected(checked.error());
    rest.remove_prefix(at + 1);
  }
  const auto tail = split_number(item, rest);
  if (!tail) return tl::unexpected(tail.error());
  if (tail->number) {
    const auto number = parse_unsigned<std::uint16_t>(*tail->number);
    if (!number || *number == 0) {
      return bad(item,
                 fmt::format("{} is not a {} from 1 to 65535", quoted(*tail->number),
                             url ? "port" : "number of slots"),
                 item_hint);
    }
    if (url) {
      model.port = *number;
    } else {
      model.slots = *number;
      model.slots_given = true;
    }
  }
  auto names = is_ipv6(tail->name) ? Result<std::vector<std::string>>({std::string(tail->name)})
                                   : expand_item(tail->name);
  if (!names) return tl::unexpected(names.error());
  std::vector<Host> hosts;
  hosts.reserve(names->size());
  for (auto& name : *names) {
    hosts.push_back(model);
    hosts.back().name = std::move(name);
  }
  return hosts;
}

}  // namespace trainrun::hosts
