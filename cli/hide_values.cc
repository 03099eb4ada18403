#include "cli/hide_values.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "cli/options.h"

namespace trainrun::cli {

namespace {

bool is_export(std::string_view spelled) {
  if (spelled.size() < 2 || spelled.front() != '-') return false;
  const OptionInfo& row = info(Option::export_name);
  const std::string name = bare_name(spelled);
  return name == bare_name(row.name) || std::any_of(row.aliases.begin(), row.aliases.end(),
                                                    [&](auto alias) { return name == bare_name(alias); });
}

// After the first '=' of "NAME=VALUE".
void blot(char* text) {
  char* value = std::strchr(text, '=');
  if (value == nullptr) return;
  for (++value; *value != '\0'; ++value) *value = '*';
}

}  // namespace

void hide_values(std::span<char* const> words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    char* equals = std::strchr(words[i], '=');
    const auto length =
        equals == nullptr ? std::strlen(words[i]) : static_cast<std::size_t>(equals - words[i]);
    if (!is_export({words[i], length})) continue;
    if (equals != nullptr) {
      blot(equals + 1);
    } else if (i + 1 < words.size()) {
      blot(words[++i]);
    }
  }
}

}  // namespace trainrun::cli
