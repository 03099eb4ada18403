// Small pure text helpers that several folders need.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainrun {

// "a,b,,c" -> {"a","b","","c"}; "" -> {""}.
std::vector<std::string_view> split(std::string_view text, char separator);
std::string_view last_line(std::string_view text);  // without the ends of lines behind it
std::string_view trim(std::string_view text);       // blanks, tabs, CR, LF at both ends

// The whole text as a decimal number: no sign, no blanks, no overflow; else nothing.
template <std::unsigned_integral T>
std::optional<T> parse_unsigned(std::string_view text) {
  if (text.empty() || text.front() == '+' || text.front() == '-') return std::nullopt;
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "1 rank", "2 ranks", "2 processes".
std::string counted(std::int64_t number, std::string_view noun);

// Text from outside, made safe for one line of a message: in single quotes (in double ones if it has single
// ones only), control bytes as \xNN, cut at `limit`.
std::string quoted(std::string_view text, std::size_t limit = 80);

// One POSIX sh word that means exactly `text` (which holds no NUL).
std::string shell_quote(std::string_view text);

// The candidate with the smallest edit distance to `word`, if it is close enough to be a slip of the finger.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates);

// "a", "a and b", "a, b and c"; past `most` names: "a, b and 7 more".
std::string list_names(const std::vector<std::string>& names, std::size_t most = 8);

// `*` and `?` as in a shell's case pattern, the whole of `text`.
bool matches_glob(std::string_view pattern, std::string_view text);

std::string hex(std::string_view bytes);

}  // namespace trainrun
