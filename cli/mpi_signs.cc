#include "cli/mpi_signs.h"

#include <algorithm>
#include <string_view>

#include "cli/foreign_flags.h"
#include "cli/mpi_flags.h"
#include "cli/mpi_values.h"
#include "cli/options.h"
#include "cli/value.h"

namespace trainrun::cli {

namespace {

// Of Hydra's -env NAME VALUE, and none of the words that our own --env takes.
bool is_name_of_variable(const std::string& word) {
  const auto choices = info(Option::env).choices;
  return is_variable_name(word) && std::find(choices.begin(), choices.end(), word) == choices.end();
}

// Of an option that we have as well one that only they know, as in --map-by socket:PE=4.
bool is_value_of_mpirun(const Flag& own, const std::string& value) {
  const auto* option = find_option(own.name);
  const auto differs = {Option::map_by, Option::rank_by, Option::bind_to};
  if (option == nullptr || std::find(differs.begin(), differs.end(), option->option) == differs.end())
    return false;
  if (check_setting({option->option, value, {}})) return false;
  const auto rows = mpi_flags();
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const MpiFlag& it) {
    return std::find(it.names.begin(), it.names.end(), own.name) != it.names.end();
  });
  if (row == rows.end()) return false;
  const auto meant = meant_by(*row, std::string(own.name), value, Ways::open_mpi, {});
  return meant && std::all_of(meant->settings.begin(), meant->settings.end(),
                              [](const Setting& it) { return check_setting(it).has_value(); });
}

// Of a flag of another launcher's that changes nothing here a value by which it would, as in -launcher fork.
bool is_only_theirs(const Flag& own, const std::string& value) {
  return !option_of(own) && !meant_by(own, value) && why_needless(own, value).empty();
}

}  // namespace

bool has_option_of_mpirun(const std::vector<std::string>& words) {
  const auto is_theirs = [&](std::string_view spelled) {
    const auto wanted = bare_name(spelled);
    if (wanted.starts_with('-')) return false;
    const auto rows = mpi_flags();
    return std::any_of(rows.begin(), rows.end(), [&](const MpiFlag& row) {
      return std::any_of(row.names.begin(), row.names.end(),
                         [&](std::string_view name) { return is_bare_name_of(wanted, name); });
    });
  };
  for (std::size_t at = 0; at < words.size() && words[at].size() > 1 && words[at][0] == '-'; ++at) {
    const auto& word = words[at];
    const auto equals = word.find('=');
    const auto* own = find_flag(job_line(), word.substr(0, equals));
    if (word == "-env" && at + 1 < words.size() && is_name_of_variable(words[at + 1])) return true;
    if (word == "--" || (own == nullptr && is_theirs(word.substr(0, equals)))) return word != "--";
    if (own == nullptr || !own->takes_value()) continue;
    if (equals == std::string::npos && ++at == words.size()) break;
    const auto value = equals == std::string::npos ? words[at] : word.substr(equals + 1);
    if (is_value_of_mpirun(*own, value) || (is_only_theirs(*own, value) && is_theirs(own->name))) return true;
  }
  return false;
}

}  // namespace trainrun::cli
