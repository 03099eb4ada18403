#include "cli/mpi_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "cli/allocation.h"
#include "cli/flag_list.h"
#include "cli/host_choice.h"
#include "cli/mpi_file.h"
#include "cli/mpi_parameters.h"
#include "cli/mpi_values.h"
#include "cli/program.h"
#include "cli/program_search.h"
#include "cli/value.h"
#include "launcher/base/strings.h"

namespace trainrun::cli {

namespace {

std::size_t row_count() { return mpi_flags().size(); }

Error unknown_flag(std::string_view word) {
  const auto spelled = word.substr(0, word.find('='));
  std::string hint = hint_for_unknown_flag(spelled);
  const auto number = std::min(spelled.find_first_of("0123456789"), spelled.size());
  const bool glued = number == 2 && spelled.size() > 2 &&
                     spelled.find_first_not_of("0123456789", number) == std::string_view::npos;
  const Flag* letter = glued ? find_flag(mpi_line(), spelled.substr(0, number)) : nullptr;
  if (letter != nullptr && letter->takes_value())
    hint = fmt::format("write {} {}", spelled.substr(0, number), spelled.substr(number, 20));
  // "write -np 2" of -np2 is better than a name that is near.
  if (const auto near = nearest_flag(mpi_line(), spelled); near && !hint.starts_with("write "))
    hint = fmt::format("did you mean {}?", *near);
  return {Code::usage, fmt::format("unknown flag {}", quoted(spelled)), std::move(hint)};
}

CommandLine make_line() {
  CommandLine line{.program = true, .unknown = unknown_flag};
  for (const auto& row : mpi_flags())
    line.flags.push_back({.name = row.names.front(),
                          .aliases = {row.names.begin() + 1, row.names.end()},
                          .takes = row.takes,
                          .value_name = row.takes == Takes::a_value  ? "VALUE"
                                        : row.takes == Takes::a_pair ? "NAME VALUE"
                                                                     : ""});
  line.flags.insert(line.flags.end(), job_line().flags.begin(), job_line().flags.end());
  return line;
}

// The row of a flag of mpi_line(), or nothing for one of ours.
const MpiFlag* row_of(const Flag& flag) {
  const auto at = static_cast<std::size_t>(&flag - mpi_line().flags.data());
  return at < row_count() ? &mpi_flags()[at] : nullptr;
}

const Flag& own_flag(const Flag& flag) {
  return job_line().flags[static_cast<std::size_t>(&flag - mpi_line().flags.data()) - row_count()];
}

bool fits(Whose whose, Ways ways) {
  return whose == Whose::both || whose == (ways == Ways::hydra ? Whose::hydra : Whose::open_mpi);
}

// That of two of the same name which is meant; one that only the other launcher has is obeyed as well.
const MpiFlag& meant_row(const MpiFlag& row, Ways ways) {
  if (fits(row.whose, ways)) return row;
  const auto rows = mpi_flags();
  const auto other = std::find_if(rows.begin(), rows.end(), [&](const MpiFlag& one) {
    return one.names.front() == row.names.front() && fits(one.whose, ways);
  });
  return other == rows.end() ? row : *other;
}

bool has_two_meanings(const MpiFlag& row) {
  const auto rows = mpi_flags();
  return std::count_if(rows.begin(), rows.end(),
                       [&](const MpiFlag& one) { return one.names.front() == row.names.front(); }) > 1;
}

// What the flags tell: nothing if there are none that only one launcher has, or some of both.
std::optional<Ways> ways_of_flags(const std::vector<GivenPart>& parts) {
  bool open_mpi = false, hydra = false;
  for (const auto& part : parts) {
    for (const auto& given : part.flags) {
      const auto* row = row_of(*given.flag);
      if (row == nullptr || row->whose == Whose::both || has_two_meanings(*row)) continue;
      (row->whose == Whose::hydra ? hydra : open_mpi) = true;
    }
  }
  if (open_mpi == hydra) return std::nullopt;
  return hydra ? Ways::hydra : Ways::open_mpi;
}

std::optional<Ways> ways_of_programs(const std::vector<GivenPart>& parts, const Inputs& inputs) {
  if (!inputs.mpi_of) return std::nullopt;
  for (const auto& part : parts) {
    if (part.program.empty()) continue;
    std::string directory = inputs.directory;
    for (const auto& given : part.flags) {
      const auto* row = row_of(*given.flag);
      if (row != nullptr && row->option == Option::wdir) directory = absolute_path(given.value, inputs);
    }
    const auto family = inputs.mpi_of(part.program, directory).family;
    if (family == wire::MpiFamily::open_mpi) return Ways::open_mpi;
    if (family == wire::MpiFamily::mpich) return Ways::hydra;
  }
  return std::nullopt;
}

Ways decide(const ForeignLine& call, const std::vector<GivenPart>& parts, const Inputs& inputs) {
  if (call.ways) return *call.ways;
  if (const auto ways = ways_of_flags(parts)) return *ways;
  if (const auto ways = ways_of_programs(parts, inputs)) return *ways;
  return inputs.called_as.starts_with("mpiexec") ? Ways::hydra : Ways::open_mpi;
}

// For a setting of all programs: one that has its own keeps it.
void put_into_all(const Setting& setting, std::vector<ArgvPart>& parts) {
  const auto name_of = [](const Setting& one) { return one.value.substr(0, one.value.find('=')); };
  for (auto& part : parts) {
    const bool own = std::any_of(part.settings.begin(), part.settings.end(), [&](const Setting& one) {
      return one.option == setting.option &&
             (setting.option != Option::export_name || name_of(one) == name_of(setting));
    });
    if (!own) part.settings.push_back(setting);
  }
}

bool is_among(const std::vector<Setting>& settings, Option option) {
  return std::any_of(settings.begin(), settings.end(),
                     [&](const Setting& one) { return one.option == option; });
}

bool says(const std::vector<ArgvPart>& parts, Option option) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const ArgvPart& part) { return is_among(part.settings, option); });
}

void add_notes(std::vector<std::string> notes, MpiLine& out) {
  for (auto& note : notes) {
    if (std::find(out.notes.begin(), out.notes.end(), note) == out.notes.end())
      out.notes.push_back(std::move(note));
  }
}

class Reader {
 public:
  Reader(MpiLine& out, const Inputs& inputs) : out_(out), inputs_(inputs) {}

  Result<void> take(Given given, std::size_t part) {
    const auto* named = row_of(*given.flag);
    if (named == nullptr) return take_flag(own_flag(*given.flag), std::move(given), out_.parts[part]);
    const auto& row = meant_row(*named, out_.ways);
    switch (row.fate) {
      case Fate::works:
        out_.parts[part].settings.push_back(
            {row.option, row.value.empty() ? std::move(given.value) : std::string(row.value), given.spelled});
        return {};
      case Fate::reads:
        return read(row, given, part);
      case Fate::needless:
        out_.parts[part].left_out.push_back({std::move(given.spelled), row.why});
        return {};
      case Fate::refused:
        return fail(Code::usage, fmt::format("{} is not supported", given.spelled), std::string(row.why));
    }
    return {};
  }

  // After all parts: what each of them says itself goes before what is said for all, and a flag before a
  // parameter of the same meaning.
  Result<void> finish() {
    if (!clean_.empty() && clean_.size() < out_.parts.size() && !is_clean_for_all_)
      return fail(Code::usage, fmt::format("{} of one program is not supported", clean_.begin()->second),
                  "write -genvnone or -genvlist, for all, or env -i before this program");
    std::erase_if(yielding_, [this](const auto& one) { return says(out_.parts, one.second.option); });
    for (auto& [part, setting] : yielding_) out_.parts[part].settings.push_back(std::move(setting));
    // The last that is said for all counts, as in Hydra.
    for (auto it = for_all_.rbegin(); it != for_all_.rend(); ++it) put_into_all(*it, out_.parts);
    for (auto& part : out_.parts) {
      if (prefix_.value.empty()) break;
      prepend("PATH", "/bin", part.settings);
      prepend("LD_LIBRARY_PATH", "/lib", part.settings);
    }
    return {};
  }

 private:
  Result<void> read(const MpiFlag& row, const Given& given, std::size_t part) {
    auto meant = meant_by(row, given.spelled, given.value, out_.ways, inputs_.environment);
    if (!meant) return tl::unexpected(meant.error());
    out_.show_hosts |= meant->show_hosts;
    out_.show_ranks |= meant->show_ranks;
    out_.names_agent |= meant->names_agent;
    if (!meant->prefix.empty()) prefix_ = {Option::export_name, meant->prefix, given.spelled};
    if (row.names.front() == "--envlist" || row.names.front() == "--envnone") clean_[part] = given.spelled;
    is_clean_for_all_ |= row.names.front() == "--genvlist" || row.names.front() == "--genvnone";
    if (meant->not_by_ssh && !out_.not_by_ssh) out_.not_by_ssh = std::move(meant->not_by_ssh);
    for (auto& setting : meant->settings) {
      const bool for_all = meant->for_all && setting.option == Option::export_name;
      if (meant->yields) {
        yielding_.emplace_back(part, std::move(setting));
      } else if (for_all) {
        for_all_.push_back(std::move(setting));
      } else {
        out_.parts[part].settings.push_back(std::move(setting));
      }
    }
    std::move(meant->defaults.begin(), meant->defaults.end(), std::back_inserter(out_.defaults));
    add_notes(std::move(meant->notes), out_);
    return {};
  }

  // Before what ranks would have otherwise.
  void prepend(std::string_view name, std::string_view folder, std::vector<Setting>& settings) const {
    auto before = variable(inputs_.environment, name);
    std::erase_if(settings, [&](const Setting& one) {
      const auto equals = one.value.find('=');
      if (one.option != Option::export_name || one.value.substr(0, equals) != name) return false;
      if (equals != std::string::npos) before = one.value.substr(equals + 1);
      return true;
    });
    settings.push_back(
        {Option::export_name,
         fmt::format("{}={}{}{}{}", name, prefix_.value, folder, before.empty() ? "" : ":", before),
         prefix_.origin});
  }

  MpiLine& out_;
  const Inputs& inputs_;
  std::vector<Setting> for_all_;
  std::vector<std::pair<std::size_t, Setting>> yielding_;  // with their parts
  Setting prefix_{};
  std::map<std::size_t, std::string> clean_;  // the parts that want nothing of the environment, by what word
  bool is_clean_for_all_ = false;
};

bool has(const MpiLine& line, Option option) {
  return says(line.parts, option) || is_among(line.environment, option);
}

void add_environment(MpiLine& line, const Inputs& inputs) {
  auto meant = read_mpi_environment(line.ways, inputs, line.names_agent);
  line.environment = std::move(meant.settings);
  line.show_hosts |= meant.show_hosts;
  line.show_ranks |= meant.show_ranks;
  if (meant.not_by_ssh && !line.not_by_ssh) line.not_by_ssh = std::move(meant.not_by_ssh);
  add_notes(std::move(meant.notes), line);
}

bool names_hosts_in_a_file(const MpiLine& line, const Inputs& inputs) {
  return has(line, Option::hostfile) || !variable(inputs.environment, "TRAINRUN_HOSTFILE").empty();
}

// Hosts that a file or a discovery would name count as named.
bool names_no_hosts(const MpiLine& line, const Inputs& inputs) {
  for (const auto option :
       {Option::host, Option::hostfile, Option::hosts_from, Option::ppn, Option::map_by, Option::rankfile,
        Option::config, Option::discover, Option::host_discovery_script}) {
    if (has(line, option) || !variable(inputs.environment, info(option).environment()).empty()) return false;
  }
  const auto allocation = read_allocation("", inputs, inputs.is_this_machine);
  return allocation && allocation->hosts.empty();
}

void add_defaults(MpiLine& line, const Inputs& inputs) {
  constexpr std::string_view origin = "as mpirun does";
  const auto put = [&](Option option, std::string value) {
    line.defaults.push_back({option, std::move(value), std::string(origin)});
  };
  if (has(line, Option::oversubscribe))  // it binds nobody then
    std::erase_if(line.defaults, [](const Setting& it) { return it.option == Option::bind_to; });
  for (const auto& [ways, option, value] : mpi_defaults()) {
    if (ways == line.ways && !is_among(line.defaults, option)) put(option, std::string(value));
  }
  if (line.ways == Ways::open_mpi && names_hosts_in_a_file(line, inputs))
    put(Option::slots_per_host, std::to_string(std::max(1U, inputs.local_facts().cores)));
  if (line.ways != Ways::hydra) return;
  if (line.parts.size() == 1) {
    if (has(line, Option::np) || !names_no_hosts(line, inputs)) return;
    line.notes.emplace_back("no -n: 1 rank, as under MPICH (Intel MPI starts one a core: give -n)");
    return put(Option::np, "1");
  }
  for (auto& part : line.parts) {
    if (!is_among(part.settings, Option::np)) part.settings.push_back({Option::np, "1", std::string(origin)});
  }
}

// Beside a host file each mention of a host by -H is one slot of it.
void count_mentions(std::vector<ArgvPart>& parts) {
  for (auto& part : parts) {
    const auto has_file = std::any_of(part.settings.begin(), part.settings.end(),
                                      [](const Setting& it) { return it.option == Option::hostfile; });
    for (auto& setting : part.settings) {
      if (!has_file || setting.option != Option::host) continue;
      std::vector<std::string> hosts;
      for (const auto name : split(setting.value, ','))
        hosts.push_back(std::string(name) + (name.find(':') == std::string_view::npos ? ":1" : ""));
      setting.value = fmt::format("{}", fmt::join(hosts, ","));
    }
  }
}

// Open MPI's mpirun finds a program of the working directory without ./ before it, after those of PATH.
void find_in_directory(MpiLine& line, const Inputs& inputs) {
  if (line.ways != Ways::open_mpi) return;
  for (auto& part : line.parts) {
    if (part.program.empty() || part.program.front().empty() ||
        part.program.front().find('/') != std::string::npos)
      continue;
    std::string directory = inputs.directory;
    for (const auto& setting : part.settings) {
      if (setting.option == Option::wdir) directory = absolute_path(setting.value, inputs);
    }
    auto& name = part.program.front();
    if (search_path(name, variable(inputs.environment, "PATH"), directory, inputs).empty() &&
        inputs.is_executable(directory + "/" + name))
      name = "./" + name;
  }
}

}  // namespace

Result<MpiLine> read_mpi_line(const ForeignLine& call, const Inputs& inputs) {
  auto words = call.words;
  if (words.size() > 1 && words.back() == ":")
    words.pop_back();  // what a loop that builds lines leaves behind
  auto given = split_parts(mpi_line(), words);
  if (given) given = with_files(std::move(*given), inputs);
  if (!given) return tl::unexpected(given.error());
  MpiLine out{.ways = decide(call, *given, inputs)};
  out.parts.resize(given->size());
  Reader reader(out, inputs);
  for (std::size_t i = 0; i < given->size(); ++i) {
    for (auto& flag : (*given)[i].flags) {
      if (auto ok = reader.take(std::move(flag), i); !ok) return tl::unexpected(ok.error());
    }
    out.parts[i].program = std::move((*given)[i].program);
  }
  if (auto ok = reader.finish(); !ok) return tl::unexpected(ok.error());
  add_environment(out, inputs);
  if (out.ways == Ways::open_mpi) count_mentions(out.parts);
  find_in_directory(out, inputs);
  add_defaults(out, inputs);
  return out;
}

const CommandLine& mpi_line() {
  static const CommandLine line = make_line();
  return line;
}

std::string mpi_help() {
  std::string out =
      "usage: mpirun [options] program [arguments] [: [options] program [arguments]]...\n\n"
      "This mpirun is trainrun. The options of Open MPI's mpirun and of MPICH's mpiexec work, have no\n"
      "effect, or are refused with what to write instead. trainrun's own may be given as well:\n"
      "trainrun --help. More: man trainrun-mpi.\n";
  const auto list = [&](std::string_view title, auto wanted) {
    std::vector<std::string> names;
    std::string_view before;
    for (const auto& row : mpi_flags()) {
      if (!wanted(row.fate) || row.names.front() == before) continue;
      before = row.names.front();
      names.push_back(fmt::format("{}", fmt::join(row.names, " ")));
    }
    out += flag_list(title, names);
  };
  list("These work:", [](Fate fate) { return fate == Fate::works || fate == Fate::reads; });
  list("These have no effect, which is said:", [](Fate fate) { return fate == Fate::needless; });
  list("These are refused:", [](Fate fate) { return fate == Fate::refused; });
  out += "\nWhat Open MPI and Hydra (MPICH, Intel MPI) mean differently:\n";
  for (const auto& [what, open_mpi, hydra] : mpi_conflicts())
    out += fmt::format("  {}\n    Open MPI: {}\n    Hydra:    {}\n", what, open_mpi, hydra);
  return out +
         "mpirun.openmpi, mpiexec.hydra and --compat-cli openmpi|hydra say which; else an option that only "
         "one\n"
         "has, then the program's MPI, then the name: mpirun is Open MPI's, mpiexec is Hydra's.\n";
}

}  // namespace trainrun::cli
