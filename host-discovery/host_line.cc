#include "host-discovery/host_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include "host-discovery/host_grammar.h"
#include "host-discovery/hostlist.h"
#include "launcher/base/strings.h"
#include "launcher/base/utf8.h"

namespace trainrun::hosts {
namespace {

constexpr std::size_t longest_path = 4095;

enum class Key : std::uint8_t { slots, max_slots, user, port, identity, binding, gpus, other };

// Each dialect of host files has its own spelling; '-' in a key is read as '_'.
constexpr std::array<std::pair<std::string_view, Key>, 17> file_keys{{
    {"slots", Key::slots},
    {"count", Key::slots},
    {"cpu", Key::slots},
    {"max_slots", Key::max_slots},
    {"slots_max", Key::max_slots},
    {"max_count", Key::max_slots},
    {"count_max", Key::max_slots},
    {"max_cpu", Key::max_slots},
    {"cpu_max", Key::max_slots},
    {"user", Key::user},
    {"username", Key::user},
    {"user_name", Key::user},
    {"port", Key::port},
    {"identity", Key::identity},
    {"identity_file", Key::identity},
    {"binding", Key::binding},
    {"bind", Key::binding},
}};

bool is_blank(char c) { return c == ' ' || c == '\t'; }

tl::unexpected<Error> bad(std::string message, std::string hint = {}) {
  return fail(Code::config, std::move(message), std::move(hint));
}

// No other spellings here: a script's cpu=64 tells about the machine, and gives no slots.
constexpr std::array<std::pair<std::string_view, Key>, 5> discovery_keys{{
    {"slots", Key::slots},
    {"user", Key::user},
    {"port", Key::port},
    {"identity", Key::identity},
    {"gpus", Key::gpus},
}};

std::optional<Key> find_key(std::string_view word, LineRules rules) {
  if (rules == LineRules::discovery) {
    for (const auto& [name, key] : discovery_keys) {
      if (name == word) return key;
    }
    return word.empty() ? std::nullopt : std::optional(Key::other);
  }
  std::string spelled(word);
  std::replace(spelled.begin(), spelled.end(), '-', '_');
  for (const auto& [name, key] : file_keys) {
    if (name == spelled) return key;
  }
  return std::nullopt;
}

tl::unexpected<Error> unknown_key(std::string_view word) {
  std::vector<std::string> names;
  for (const auto& [name, key] : file_keys) names.emplace_back(name);
  const auto close = nearest(word, names);
  return bad(fmt::format("{} is not known", quoted(word)),
             close ? fmt::format("did you mean {}=?", *close)
                   : "after the host come slots=, max_slots=, user=, port= and identity=");
}

// What the words after the host said.
struct Given {
  std::optional<std::uint16_t> slots, max_slots, port;
  std::optional<std::string> user, identity, binding, gpus;
};

Result<void> set_number(std::optional<std::uint16_t>& field, std::string_view key, std::string_view value,
                        std::uint16_t least = 1) {
  if (field) return bad(fmt::format("{}= is given twice", key));
  field = parse_unsigned<std::uint16_t>(value);
  if (!field || *field < least) {
    return bad(fmt::format("{}={} is not a number from {} to 65535", key, quoted(value), least));
  }
  return {};
}

Result<void> set_text(std::optional<std::string>& field, std::string_view key, std::string_view value) {
  if (field) return bad(fmt::format("{}= is given twice", key));
  const bool control = std::any_of(value.begin(), value.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7f;
  });
  if (value.empty() || value.size() > longest_path || control) {
    return bad(fmt::format("{}={} is empty, too long or has control characters", key, quoted(value)));
  }
  field = value;
  return {};
}

Result<void> read_word(std::string_view word, LineRules rules, Given& given) {
  const auto equals = word.find('=');
  if (equals == std::string_view::npos) {
    return bad(fmt::format("{} where key=value was expected", quoted(word)),
               "one host a line, as in: gpu1 slots=8");
  }
  const auto name = word.substr(0, equals);
  const auto value = word.substr(equals + 1);
  const auto key = find_key(name, rules);
  if (!key) return unknown_key(name);
  switch (*key) {
    case Key::slots:
      return set_number(given.slots, name, value, 0);
    case Key::max_slots:
      return set_number(given.max_slots, name, value);
    case Key::port:
      return set_number(given.port, name, value);
    case Key::identity:
      return set_text(given.identity, name, value);
    case Key::binding:
      return set_text(given.binding, name, value);
    case Key::user:
      if (auto checked = check_user(value); !checked) return checked;
      return set_text(given.user, name, value);
    case Key::gpus:
      return set_text(given.gpus, name, value);
    case Key::other:
      return {};
  }
  return {};
}

Result<void> apply(const Given& given, Host& host) {
  if (given.slots) {
    if (host.slots_given) return bad("the slots are given twice, after ':' and as a word");
    host.slots = *given.slots;
    host.slots_given = true;
  }
  if (given.gpus && !host.slots_given) {
    std::optional<std::uint16_t> number;
    if (auto set = set_number(number, "gpus", *given.gpus, 0); !set) return set;
    host.slots = *number;
    host.slots_given = true;
  }
  if (given.max_slots && *given.max_slots < host.slots) {
    return bad(fmt::format("{} slots, but at most {}", host.slots, *given.max_slots));
  }
  if (given.user) {
    if (!host.user.empty() && host.user != *given.user) {
      return bad(fmt::format("two users, {} and {}", quoted(host.user), quoted(*given.user)));
    }
    host.user = *given.user;
  }
  if (given.port) {
    if (host.port != 0 && host.port != *given.port) {
      return bad(fmt::format("two ports, {} and {}", host.port, *given.port));
    }
    host.port = *given.port;
  }
  if (given.identity) host.identity = *given.identity;
  return {};
}

// Up to the next blank or comment. A path holds slashes of its own, a URL two: only the first slash of a
// word, and none after a colon, may begin a comment.
std::size_t word_size(std::string_view line) {
  const auto blank = std::find_if(line.begin(), line.end(), is_blank);
  auto size = static_cast<std::size_t>(std::distance(line.begin(), blank));
  size = std::min(size, line.find('#'));
  const auto slash = line.find('/');
  const auto from = slash == std::string_view::npos ? std::string_view() : line.substr(slash, 2);
  const bool comment = (from == "//" || from == "/*") && slash > 0 && line[slash - 1] != ':';
  return comment ? std::min(size, slash) : size;
}

}  // namespace

std::vector<std::string> LineCutter::cut(std::string_view line) {
  std::vector<std::string> words;
  bool glue = false;  // the next word belongs to the last one
  while (!line.empty()) {
    if (inside_comment_) {
      const auto end = line.find("*/");
      if (end == std::string_view::npos) return words;
      inside_comment_ = false;
      line.remove_prefix(end + 2);
    } else if (is_blank(line.front())) {
      line.remove_prefix(1);
    } else if (line.starts_with('#') || line.starts_with("//")) {
      return words;
    } else if (line.starts_with("/*")) {
      inside_comment_ = true;
      line.remove_prefix(2);
    } else {
      const auto size = word_size(line);
      const auto word = line.substr(0, size);
      line.remove_prefix(size);
      if (words.size() > 1 && (glue || word.starts_with('='))) {
        words.back() += word;
      } else {
        words.emplace_back(word);
      }
      glue = word.ends_with('=');
    }
  }
  return words;
}

bool take_zero(std::string& word) {
  constexpr std::string_view zero = ":0";
  if (!word.ends_with(zero)) return false;
  const auto head = std::string_view(word).substr(0, word.size() - zero.size());
  if (head.find(':') != std::string_view::npos && !head.ends_with(']')) return false;
  word.resize(head.size());
  return true;
}

Result<std::vector<Host>> read_host_line(const std::vector<std::string>& words, LineRules rules) {
  if (const auto ranges = braces_as_ranges(words.front()); !ranges.empty())
    return bad(fmt::format("{}: braces are a shell's, and not expanded here", quoted(words.front())),
               "write " + printable(ranges));
  auto hosts = parse_host_item(words.front());
  if (!hosts) return hosts;
  Given given;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (auto read = read_word(words[i], rules, given); !read) return tl::unexpected(read.error());
  }
  for (auto& host : *hosts) {
    if (auto applied = apply(given, host); !applied) return tl::unexpected(applied.error());
  }
  return hosts;
}

Result<std::string_view> take_line(std::string_view& text) {
  const auto end = text.find('\n');
  auto line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.size() > longest_line) return bad(fmt::format("a line of more than {} bytes", longest_line));
  if (line.find('\0') != std::string_view::npos)
    return bad("a NUL byte", "the text must be in UTF-8: is this a host file?");
  return line;
}

}  // namespace trainrun::hosts
