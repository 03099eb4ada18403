// Variables of an environment as messages have them.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "launcher/wire/messages.h"

namespace trainrun::wire {

// The last entry of a name counts; empty: there is none.
inline std::string value_of(const EnvPairs& env, std::string_view name) {
  const auto it =
      std::find_if(env.rbegin(), env.rend(), [name](const auto& pair) { return pair.first == name; });
  return it == env.rend() ? std::string{} : it->second;
}

}  // namespace trainrun::wire
