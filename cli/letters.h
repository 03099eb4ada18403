// Words of options in whatever letters they are written.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace trainrun::cli {

// ASCII's letters alone: "GLOO" is "gloo".
inline std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return out;
}

}  // namespace trainrun::cli
