#include "launcher/agent/pmi1.h"

#include <algorithm>

#include "launcher/base/strings.h"

namespace trainrun::agent::pmi1 {

std::optional<Line> Line::parse(std::string_view text) {
  Line line;
  for (const auto word : split(text, ' ')) {
    const auto equals = word.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;  // newer clients may say more than we know
    line.words_.emplace_back(word.substr(0, equals), word.substr(equals + 1));
  }
  if (line.words_.empty()) return std::nullopt;
  const auto& [key, value] = line.words_.front();
  if ((key != "cmd" && key != "mcmd") || value.empty()) return std::nullopt;
  line.command_ = value;
  line.block_ = key == "mcmd";
  return line;
}

std::string_view Line::get(std::string_view key) const {
  const auto it =
      std::find_if(words_.begin(), words_.end(), [key](const auto& word) { return word.first == key; });
  return it == words_.end() ? std::string_view{} : it->second;
}

std::string as_value(std::string_view text) {
  std::string value(text.substr(0, 200));
  for (auto& c : value)
    if (static_cast<unsigned char>(c) <= ' ' || c == '\\' || c == 0x7f) c = '_';
  return value.empty() ? "none" : value;
}

}  // namespace trainrun::agent::pmi1
