#include "cli/environment.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/base/strings.h"

namespace trainrun::cli {

EnvironmentLayer read_environment(const std::vector<EnvVar>& environment) {
  static constexpr std::string_view prefix = "TRAINRUN_";
  EnvironmentLayer out;
  const bool any = std::any_of(environment.begin(), environment.end(),
                               [](const EnvVar& one) { return one.first.starts_with(prefix); });
  if (!any)
    return out;  // the names of all options cost more than the rest of this, and most starts have none
  std::vector<std::string> names;
  for (const auto& row : options()) {
    if (!row.environment().empty()) names.push_back(row.environment().substr(prefix.size()));
  }
  for (const auto& [name, value] : environment) {
    if (!name.starts_with(prefix) || value.empty()) continue;
    bool known = false;
    for (const auto& row : options()) {
      if (row.environment() != name) continue;
      known = true;
      if (row.type == Type::export_name) {
        for (const auto word : split(value, ','))
          out.settings.push_back({row.option, std::string(trim(word)), name});
      } else {
        out.settings.push_back({row.option, value, name});
      }
    }
    if (known) continue;
    // Everything else may be a worker's variable of a surrounding job, so only one slip of the finger is
    // spoken of.
    const std::string_view rest = std::string_view(name).substr(prefix.size());
    for (const auto& candidate : names) {
      const auto near = nearest(rest, {candidate});
      const bool one_slip = near && rest.size() >= 5 && rest.size() <= candidate.size() + 1 &&
                            candidate.size() <= rest.size() + 1 && rest.front() == candidate.front() &&
                            rest.back() == candidate.back();
      if (one_slip)
        out.notes.push_back(
            fmt::format("{} is not a setting; did you mean {}{}?", quoted(name), prefix, candidate));
    }
  }
  return out;
}

}  // namespace trainrun::cli
