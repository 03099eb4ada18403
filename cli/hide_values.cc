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

// Hydra's -genv NAME VALUE and -env NAME VALUE; `name` tells the latter from our own --env.
bool is_pair(std::string_view spelled, std::string_view name) {
  if (spelled.size() < 2 || spelled.front() != '-') return false;
  const std::string flag = bare_name(spelled);
  return flag == "genv" || (flag == "env" && name != "all" && name != "none" && name != "default");
}

// Open MPI's --mca mca_base_env_list "NAME=VALUE;NAME=VALUE".
bool is_env_list(std::string_view spelled, std::string_view name) {
  if (spelled.size() < 2 || spelled.front() != '-' || name != "mca_base_env_list") return false;
  const std::string flag = bare_name(spelled);
  return flag == "mca" || flag == "omca" || flag == "gmca" || flag == "gomca";
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
    if (equals == nullptr && i + 1 < words.size() && is_pair(words[i], words[i + 1])) {
      char* name = words[++i];
      if (std::strchr(name, '=') != nullptr) {
        blot(name);
      } else if (i + 1 < words.size()) {
        char* value = words[++i];
        std::fill_n(value, std::strlen(value), '*');
      }
      continue;
    }
    if (equals == nullptr && i + 2 < words.size() && is_env_list(words[i], words[i + 1])) {
      blot(words[i += 2]);
      continue;
    }
    if (!is_export({words[i], length})) continue;
    if (equals != nullptr) {
      blot(equals + 1);
    } else if (i + 1 < words.size()) {
      blot(words[++i]);
    }
  }
}

}  // namespace trainrun::cli
