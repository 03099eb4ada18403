#include "launcher/base/utf8.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainrun {

std::size_t utf8_length(std::string_view text) {
  const auto at = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto first = at(0);
  const std::size_t length = first < 0x80                     ? 1
                             : first >= 0xc2 && first < 0xe0  ? 2
                             : (first & 0xf0) == 0xe0         ? 3
                             : first >= 0xf0 && first <= 0xf4 ? 4
                                                              : 0;
  if (text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xc0) != 0x80) return 0;
  }
  if (length < 3) return length;
  const bool too_long = (first == 0xe0 && at(1) < 0xa0) || (first == 0xf0 && at(1) < 0x90);
  const bool no_character = (first == 0xed && at(1) >= 0xa0) || (first == 0xf4 && at(1) >= 0x90);
  return too_long || no_character ? 0 : length;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const auto length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto length = utf8_length(text);
    const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const bool control =
        byte(0) < 0x20 || byte(0) == 0x7f || (length == 2 && byte(0) == 0xc2 && byte(1) < 0xa0);
    const auto part = text.substr(0, std::max<std::size_t>(length, 1));
    if (length == 0 || control) {
      for (const char c : part) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += part;
    }
    text.remove_prefix(part.size());
  }
  return out;
}

std::string_view first_bytes(std::string_view text, std::size_t limit) {
  auto shown = text.substr(0, limit);
  for (std::size_t back = 1; back <= 3 && back <= shown.size(); ++back) {
    if (utf8_length(text.substr(shown.size() - back)) <= back) continue;
    shown.remove_suffix(back);
    break;
  }
  return shown;
}

}  // namespace trainrun
