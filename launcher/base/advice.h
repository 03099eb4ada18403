// How a hint is shown, wherever that is: "try: HINT". One that begins with that word says it once.
#pragma once

#include <string>
#include <string_view>

namespace trainrun {

inline std::string advice(std::string_view hint) {
  const bool says_it = hint.starts_with("try: ") || hint.starts_with("try ");
  return (says_it ? "" : "try: ") + std::string(hint);
}

}  // namespace trainrun
