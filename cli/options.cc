#include "cli/options.h"

#include <fmt/format.h>

#include "cli/foreign_flags.h"
#include "cli/option_table.h"
#include "cli/value.h"
#include "launcher/base/check.h"
#include "launcher/base/strings.h"

namespace trainrun::cli {

namespace {

Error unknown_flag(std::string_view word) {
  const auto spelled = word.substr(0, word.find('='));
  return {Code::usage, fmt::format("unknown flag {}", quoted(spelled)), hint_for_unknown_flag(spelled)};
}

CommandLine make_job_line() {
  CommandLine line{.program = true, .unknown = unknown_flag, .misfit = misfit};
  for (const auto& row : option_table())
    line.flags.push_back({.name = row.name,
                          .aliases = row.aliases,
                          .takes = row.takes(),
                          .value_name = row.value_name,
                          .hidden = row.hidden,
                          .ends_flags = row.option == Option::module});  // as python's own -m
  const auto& foreign = foreign_flags();
  line.flags.insert(line.flags.end(), foreign.begin(), foreign.end());
  return line;
}

}  // namespace

Takes OptionInfo::takes() const {
  switch (type) {
    case Type::flag:
      return Takes::yes_or_no;
    case Type::count:
      return Takes::a_count;
    case Type::topic:
      return Takes::a_topic;
    case Type::time_range:
      return Takes::two_values;
    default:
      return Takes::a_value;
  }
}

std::string OptionInfo::environment() const {
  if (option == Option::help || option == Option::version || option == Option::print_options ||
      option == Option::module)
    return {};
  if (option == Option::host) return "TRAINRUN_HOSTS";  // TRAINRUN_HOST tells a worker where it is
  std::string out = "TRAINRUN_";
  for (const char c : name.substr(2)) {
    out += c == '-' ? '_' : (c >= 'a' && c <= 'z') ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return out;
}

std::span<const OptionInfo> options() { return option_table(); }

const OptionInfo& info(Option option) {
  const auto& row = option_table()[static_cast<std::size_t>(option)];
  TRAINRUN_CHECK(row.option == option);  // the table is in the order of the enum
  return row;
}

std::string_view group_title(Group group) {
  switch (group) {
    case Group::ranks:
      return "Ranks and hosts";
    case Group::placement:
      return "Placement";
    case Group::program:
      return "Program";
    case Group::output:
      return "Output, input";
    case Group::time:
      return "Time";
    case Group::elastic:
      return "Elastic jobs";
    case Group::ssh:
      return "Reaching hosts";
    case Group::network:
      return "Network";
    case Group::actions:
      return "Instead of a run";
  }
  return "";
}

const CommandLine& job_line() {
  static const CommandLine line = make_job_line();
  return line;
}

std::optional<Option> option_of(const Flag& flag) {
  const auto row = static_cast<std::size_t>(&flag - job_line().flags.data());
  return row < option_table().size() ? std::optional(option_table()[row].option) : std::nullopt;
}

const OptionInfo* find_option(std::string_view spelled) {
  const Flag* flag = find_flag(job_line(), spelled);
  const auto option = flag == nullptr ? std::nullopt : option_of(*flag);
  return option ? &info(*option) : nullptr;
}

std::string hint_for_unknown_flag(std::string_view spelled) {
  const std::string wanted = bare_name(spelled.substr(0, std::min<std::size_t>(spelled.size(), 64)));
  if (const auto advice = advice_for_foreign_flag(wanted); !advice.empty()) return std::string(advice);
  // -np3, -H=a is fine, -Ha is not: a short flag with its value glued on
  const auto number = std::min(spelled.find_first_of("0123456789"), spelled.size());
  if (number == 2 && spelled.size() > 2 &&
      spelled.find_first_not_of("0123456789", number) == std::string_view::npos) {
    if (const auto advice = advice_for_foreign_flag(spelled.substr(0, 2)); !advice.empty())
      return std::string(advice);
  }
  if (spelled.starts_with("-x") && spelled.find('=', 3) != std::string_view::npos)
    return "write -x NAME=VALUE";
  if (spelled.size() == 3 && spelled.starts_with("--") && find_option(spelled.substr(1)) != nullptr)
    return fmt::format("did you mean {}?", spelled.substr(1));
  std::vector<std::string> candidates;
  for (const auto& row : option_table()) {
    if (row.hidden) continue;
    candidates.emplace_back(row.name.substr(2));
    for (const auto alias : row.aliases) {
      if (alias.starts_with("--")) candidates.emplace_back(alias.substr(2));
      if (alias.starts_with("--") || !row.takes_value() || spelled.size() <= alias.size()) continue;
      const std::string_view rest = spelled.substr(alias.size());
      if (spelled.starts_with(alias) && rest.find_first_not_of("0123456789") == std::string_view::npos) {
        return fmt::format("write {} {}", alias, rest.substr(0, 20));
      }
    }
  }
  if (wanted.size() == 2 &&
      wanted.front() == '-') {  // every short word is near a single letter: only its case is looked at
    const std::string other = {'-', static_cast<char>(wanted[1] ^ 0x20)};
    if (find_option(other) != nullptr) return fmt::format("did you mean {}?", other);
  } else if (const auto near = nearest(wanted, candidates)) {
    return fmt::format("did you mean --{}?", *near);
  }
  return "trainrun --help all lists every option; if it is the program's own, put it after the program";
}

std::string print_options() {
  std::string out;
  for (const auto& row : option_table()) {
    if (row.hidden) continue;
    out += fmt::format("{}\t{}\t{}\t{}\t{}\n", row.name, fmt::join(row.aliases, " "), row.environment(),
                       row.toml, row.default_text);
  }
  return out;
}

}  // namespace trainrun::cli
