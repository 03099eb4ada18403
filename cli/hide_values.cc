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
  const std::string name = bare_name(spelled), whole = bare_name(row.name);
  // horovodrun's command line takes the beginning of a name for it.
  if (spelled.starts_with("--") && !name.empty() && whole.starts_with(name)) return true;
  return name == whole || std::any_of(row.aliases.begin(), row.aliases.end(),
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
    char* const equals = std::strchr(words[i], '=');
    const std::string_view flag = std::string_view(words[i]).substr(0, std::string_view(words[i]).find('='));
    // The flag's first argument, behind '=' or as a word of its own, and the word behind that.
    char* const first = equals != nullptr ? equals + 1 : i + 1 < words.size() ? words[i + 1] : nullptr;
    if (first == nullptr) return;
    const std::size_t at_first = equals != nullptr ? i : i + 1;
    char* const second = at_first + 1 < words.size() ? words[at_first + 1] : nullptr;
    if (is_export(flag)) {
      blot(first);
    } else if (is_pair(flag, first)) {
      if (std::strchr(first, '=') != nullptr)
        blot(first);
      else if (second != nullptr)
        std::fill_n(second, std::strlen(second), '*');
    } else if (is_env_list(flag, first)) {
      if (second != nullptr) blot(second);
    } else {
      continue;
    }
    i = at_first;
  }
}

}  // namespace trainrun::cli
