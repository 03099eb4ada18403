#include "cli/env_file.h"

#include <fmt/format.h>

#include <map>

#include "cli/value.h"
#include "launcher/base/strings.h"

namespace trainrun::cli {

namespace {

// Of NAME=VALUE: Linux starts no program with a longer one (MAX_ARG_STRLEN, for pages of 4 KiB).
constexpr std::size_t longest = 128 * 1024 - 1;

std::string_view unquoted(std::string_view value) {
  if (value.size() >= 2 && (value.front() == '"' || value.front() == '\'') && value.back() == value.front()) {
    return value.substr(1, value.size() - 2);
  }
  return value;
}

}  // namespace

Result<std::vector<EnvVar>> read_env_file(std::string_view content, std::string_view path) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF", shells_word = "export";
  if (content.starts_with(byte_order_mark)) content.remove_prefix(byte_order_mark.size());
  std::map<std::string, std::string, std::less<>> found;
  int number = 0;
  for (const auto raw : split(content, '\n')) {
    ++number;
    auto line = trim(raw);
    if (line.empty() || line.front() == '#') continue;
    if (line.starts_with(shells_word) && line.substr(shells_word.size()).find_first_of(" \t") == 0)
      line = trim(line.substr(shells_word.size()));
    const auto equals = line.find('=');
    if (equals == std::string_view::npos || !is_variable_name(line.substr(0, equals)) ||
        line.find('\0') != std::string_view::npos) {
      // Nothing of the line: it may be a secret, or one that goes on here, and logs keep what we say.
      return fail(Code::config, fmt::format("{}:{}: the line is not NAME=VALUE", path, number),
                  "a name has letters, digits and _, with no spaces around the =");
    }
    const auto name = line.substr(0, equals), value = unquoted(line.substr(equals + 1));
    if (const auto size = name.size() + 1 + value.size(); size > longest)
      return fail(Code::config,
                  fmt::format("{}:{}: {} has {} bytes with its name, and no program can be started with more "
                              "than {}",
                              path, number, name, size, longest),
                  "put the value into a file, and the file's name into the variable");
    found.insert_or_assign(std::string(name), std::string(value));
  }
  return std::vector<EnvVar>(found.begin(), found.end());
}

}  // namespace trainrun::cli
