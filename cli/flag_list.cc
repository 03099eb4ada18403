#include "cli/flag_list.h"

#include <fmt/format.h>

namespace trainrun::cli {

std::string flag_list(std::string_view title, const std::vector<std::string>& names) {
  constexpr std::size_t columns = 95;
  std::string out = fmt::format("\n{}\n", title);
  std::string line = " ";
  for (const auto& name : names) {
    if (line.size() + 1 + name.size() > columns) {
      out += line + "\n";
      line = " ";
    }
    line += fmt::format(" {},", name);
  }
  line.pop_back();
  return out + line + "\n";
}

}  // namespace trainrun::cli
