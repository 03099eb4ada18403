#include "launcher/base/rank_ranges.h"

#include <fmt/format.h>

namespace trainrun {

std::string as_ranges(const std::vector<std::uint32_t>& ranks) {
  std::string out;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    out += fmt::format("{}{}", out.empty() ? "" : ",", ranks[i]);
    if (end - i > 1) out += fmt::format("-{}", ranks[end - 1]);
    i = end;
  }
  return out;
}

}  // namespace trainrun
