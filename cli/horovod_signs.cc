#include "cli/horovod_signs.h"

#include <algorithm>
#include <string_view>

#include "cli/foreign_flags.h"
#include "cli/horovod_flags.h"
#include "cli/horovod_line.h"
#include "cli/mpi_line.h"
#include "cli/options.h"

namespace trainrun::cli {

namespace {

bool is_option(const std::string& word) { return word.size() > 1 && word[0] == '-'; }

// Not cut short: who cuts a name short may mean a flag of ours.
bool is_spelled_out(std::string_view spelled) {
  const auto wanted = bare_name(spelled);
  return std::any_of(horovod_flags().begin(), horovod_flags().end(), [&](const HorovodFlag& row) {
    return std::any_of(row.names.begin(), row.names.end(),
                       [&](std::string_view name) { return is_bare_name_of(wanted, name); });
  });
}

// As argparse does, horovodrun takes the beginning of a name. Of one that we have as well it is a slip; one
// that mpirun has, as --prefix, is that, and so is srun's --time.
bool is_beginning_of_theirs(std::string_view name) {
  constexpr std::size_t long_enough = 6;
  const auto flags = name.size() < long_enough || find_flag(mpi_line(), name) != nullptr ||
                             !advice_for_foreign_flag(bare_name(name)).empty()
                         ? std::vector<const Flag*>{}
                         : flags_cut_to(horovod_line(), name);
  return !flags.empty() && std::all_of(flags.begin(), flags.end(), [](const Flag* flag) {
    return find_flag(job_line(), flag->name) == nullptr;
  });
}

// `own` by this name is one of theirs too: --slots is ours, and the beginning of --slots-per-host, which both
// take for the same.
bool has_it_too(std::string_view name, const Flag& own) {
  if (is_spelled_out(name)) return true;
  const auto flags = flags_cut_to(horovod_line(), name);
  const auto* row = flags.size() == 1 ? row_of(*flags.front(), horovod_line()) : nullptr;
  return row != nullptr && row->fate == Fate::works && option_of(own) == row->option;
}

// What follows words[at], a flag of ours, and its value.
std::size_t behind(const Flag& own, const std::vector<std::string>& words, std::size_t at) {
  if (!own.takes_value() || words[at].find('=') != std::string::npos) return at + 1;
  if (at + 1 == words.size()) return words.size();
  const bool two = own.takes == Takes::two_values && words[at + 1].find_first_of(" ,") == std::string::npos;
  return std::min(at + (two ? 3 : 2), words.size());
}

}  // namespace

bool has_option_of_horovodrun(const std::vector<std::string>& words) {
  for (std::size_t at = 0; at < words.size() && is_option(words[at]);) {
    const auto& word = words[at];
    if (word == "--") return false;
    const auto equals = word.find('=');
    const auto name = word.substr(0, equals);
    const auto* own = find_flag(job_line(), name);
    const bool of_horovod = is_spelled_out(name);
    if (own == nullptr && (of_horovod || is_beginning_of_theirs(name))) return true;
    if (own == nullptr) {
      ++at;
      continue;
    }
    const auto next = behind(*own, words, at);
    const auto value = equals != std::string::npos ? word.substr(equals + 1)
                       : next > at + 1             ? words[at + 1]
                                                   : std::string();
    // srun's --mpi has a value, which names a protocol; horovodrun's has none.
    if (of_horovod && own->takes_value() && !option_of(*own) && !meant_by(*own, value) &&
        why_needless(*own, value).empty())
      return true;
    at = next;
  }
  return false;
}

std::optional<std::size_t> program_behind_its_options(const std::vector<std::string>& words) {
  std::size_t at = 0;
  while (at < words.size() && is_option(words[at])) {
    const auto name = std::string_view(words[at]).substr(0, words[at].find('='));
    const auto* own = find_flag(job_line(), name);
    if (own == nullptr || !has_it_too(name, *own)) return std::nullopt;
    at = behind(*own, words, at);
  }
  return at > 0 && at < words.size() ? std::optional(at) : std::nullopt;
}

}  // namespace trainrun::cli
