#include "launcher/output/terminal_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/base/utf8.h"

namespace trainrun::output {
namespace {

// Length of a colour sequence (ESC [ digits and ; m) at the start of `text`, or 0.
std::size_t colour_sequence(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const auto end = text.find_first_not_of("0123456789;:", 2);
  return end != std::string_view::npos && text[end] == 'm' && end < 40 ? end + 1 : 0;
}

}  // namespace

std::string without_colours(std::string_view line) {
  std::string plain;
  while (!line.empty()) {
    const auto escape = std::min(line.find('\x1b'), line.size());
    plain += line.substr(0, escape);
    line.remove_prefix(escape);
    const auto length = colour_sequence(line);
    if (length == 0) plain += line.substr(0, 1);
    line.remove_prefix(std::min(std::max<std::size_t>(length, 1), line.size()));
  }
  return plain;
}

std::string neutralised(std::string_view line) {
  std::string out;
  out.reserve(line.size());
  bool coloured = false;
  for (std::size_t i = 0; i < line.size();) {
    const auto byte = static_cast<unsigned char>(line[i]);
    if (const auto length = byte == 0x1b ? colour_sequence(line.substr(i)) : 0; length > 0) {
      out += line.substr(i, length);
      coloured = true;
      i += length;
      continue;
    }
    if (byte >= 0x80) {
      // C1 controls in UTF-8 are C2 80..9F; a lone 80..9F is no valid UTF-8, and some terminals obey it.
      const auto length = utf8_length(line.substr(i));
      const bool c1 = length == 2 && byte == 0xc2 && static_cast<unsigned char>(line[i + 1]) < 0xa0;
      if (length > 0 && !c1) {
        out += line.substr(i, length);
      } else {
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(line[c1 ? i + 1 : i]));
      }
      i += std::max<std::size_t>(length, 1);
      continue;
    }
    if (byte < 0x20 && byte != '\t') {
      out += '^';
      out += static_cast<char>(byte + 0x40);
    } else if (byte == 0x7f) {
      out += "^?";
    } else {
      out += line[i];
    }
    ++i;
  }
  if (coloured) out += "\x1b[0m";
  return out;
}

}  // namespace trainrun::output
