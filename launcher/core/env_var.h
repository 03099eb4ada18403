// Looking up a variable in a list of them.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/core/job_spec.h"

namespace trainrun::core {

// The value of the first variable of that name; null when there is none.
inline const std::string* find_variable(const std::vector<EnvVar>& env, std::string_view name) {
  const auto found =
      std::find_if(env.begin(), env.end(), [&](const EnvVar& var) { return var.first == name; });
  return found == env.end() ? nullptr : &found->second;
}

}  // namespace trainrun::core
