#include "launcher/core/shown_words.h"

#include <algorithm>

#include "launcher/core/env_forward.h"

namespace trainrun::core {
namespace {

bool is_number(std::string_view text) {
  return text.find_first_not_of("0123456789.") == std::string_view::npos;
}

}  // namespace

std::vector<std::string> shown_words(const std::vector<std::string>& argv) {
  std::vector<std::string> out;
  bool secret_next = false;
  for (const auto& word : argv) {
    const auto equals = word.find('=');
    auto name = word.substr(0, equals);
    name.erase(0, name.find_first_not_of('-'));
    std::replace(name.begin(), name.end(), '-', '_');
    const bool secret = is_secret_name(name);
    if ((secret_next && !word.starts_with('-') && !is_number(word)) || has_password(word)) {
      out.emplace_back(redacted);
    } else if (secret && equals != std::string::npos && !is_number(word.substr(equals + 1))) {
      out.push_back(word.substr(0, equals + 1) + std::string(redacted));
    } else {
      out.push_back(word);
    }
    secret_next = secret && equals == std::string::npos && word.starts_with('-');
  }
  return out;
}

}  // namespace trainrun::core
