#include "cli/toml_keys.h"

#include <algorithm>

namespace trainrun::cli {

namespace {

// Behind the string that begins at `at`; one that does not end is the parser's to refuse, and ends with its
// line, or with the text.
std::size_t behind_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const bool many = text.substr(at, 3) == std::string_view(quote == '"' ? "\"\"\"" : "'''");
  const std::size_t width = many ? 3 : 1;
  const auto closing = text.substr(at, width);
  for (at += width; at < text.size(); ++at) {
    if (text[at] == '\n' && !many) return at;
    if (text[at] == '\\' && quote == '"') {
      ++at;
    } else if (text.substr(at, width) == closing) {
      return at + width;
    }
  }
  return text.size();
}

}  // namespace

std::optional<std::size_t> line_of_long_key(std::string_view text) {
  std::size_t dots = 0;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      at = behind_string(text, at);
      continue;
    }
    if (c == '#') {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    if (c == '.') {
      if (++dots == most_key_parts)
        return 1 + static_cast<std::size_t>(
                       std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    } else if (std::string_view("\n=,[]{}").find(c) != std::string_view::npos) {
      dots = 0;  // no key goes on behind it
    }
    ++at;
  }
  return std::nullopt;
}

}  // namespace trainrun::cli
