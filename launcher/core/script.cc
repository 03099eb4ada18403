#include "launcher/core/script.h"

#include <string_view>

namespace trainrun::core {

std::string script_of(const std::vector<std::string>& argv) {
  if (argv.size() < 2 || argv[1].empty() || argv[1].front() == '-') return {};
  const std::string_view name = std::string_view(argv[0]).substr(argv[0].rfind('/') + 1);
  constexpr std::string_view python = "python";
  if (!name.starts_with(python)) return {};
  const auto version = name.substr(python.size());
  return version.find_first_not_of("0123456789.") == std::string_view::npos ? argv[1] : std::string();
}

}  // namespace trainrun::core
