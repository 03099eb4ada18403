#include "cli/command_line.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/base/strings.h"

namespace trainrun::cli {

namespace {

constexpr std::size_t longest_name = 64;

}  // namespace

std::string bare_name(std::string_view spelled) {
  std::string word(spelled.substr(spelled.starts_with("--") ? 2 : 1));
  if (word.size() == 1) return std::string(spelled);
  std::replace(word.begin(), word.end(), '_', '-');
  return word;
}

bool is_bare_name_of(std::string_view bare, std::string_view spelled) {
  const auto word = spelled.substr(spelled.starts_with("--") ? 2 : 1);
  if (word.size() == 1) return spelled == bare;
  return std::equal(word.begin(), word.end(), bare.begin(), bare.end(),
                    [](char theirs, char ours) { return (theirs == '_' ? '-' : theirs) == ours; });
}

const Flag* find_flag(const CommandLine& line, std::string_view spelled) {
  if (spelled.size() < 2 || spelled.size() > longest_name || spelled.front() != '-' || spelled == "--")
    return nullptr;
  const std::string wanted = bare_name(spelled);
  const auto is_wanted = [&](std::string_view name) { return is_bare_name_of(wanted, name); };
  for (const auto& flag : line.flags) {
    if (is_wanted(flag.name) || std::any_of(flag.aliases.begin(), flag.aliases.end(), is_wanted))
      return &flag;
  }
  const auto cut = flags_cut_to(line, spelled);
  return cut.size() == 1 ? cut.front() : nullptr;
}

std::vector<const Flag*> flags_cut_to(const CommandLine& line, std::string_view spelled) {
  std::vector<const Flag*> found;
  if (!spelled.starts_with("--")) return found;
  const auto begins = [beginning = bare_name(spelled)](std::string_view name) {
    return name.starts_with("--") && bare_name(name).starts_with(beginning);
  };
  for (std::size_t i = 0; i < line.shortened; ++i) {
    const auto& flag = line.flags[i];
    if (begins(flag.name) || std::any_of(flag.aliases.begin(), flag.aliases.end(), begins))
      found.push_back(&flag);
  }
  return found;
}

std::optional<std::string> nearest_flag(const CommandLine& line, std::string_view word) {
  std::vector<std::string> names;
  for (const auto& flag : line.flags) {
    if (!flag.hidden) names.emplace_back(flag.name.substr(2));
  }
  const auto near = nearest(bare_name(word), names);
  return near ? std::optional("--" + *near) : std::nullopt;
}

std::string help_on_flags(const CommandLine& line, std::size_t column) {
  std::string out;
  for (const auto& flag : line.flags) {
    if (flag.hidden) continue;
    std::string head =
        fmt::format("  {}{}{}", flag.name, flag.value_name.empty() ? "" : " ", flag.value_name);
    for (const auto alias : flag.aliases) head += fmt::format(", {}", alias);
    for (const auto text : split(flag.help, '\n')) {
      out += fmt::format("{:<{}}{}\n", head, column, text);
      head.clear();
    }
  }
  return out;
}

}  // namespace trainrun::cli
