#include "cli/horovod_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "cli/elastic.h"
#include "cli/flag_list.h"
#include "cli/foreign_flags.h"
#include "cli/horovod_config.h"
#include "cli/horovod_flags.h"
#include "cli/horovod_values.h"
#include "cli/letters.h"
#include "cli/program.h"
#include "cli/value.h"
#include "launcher/base/strings.h"
#include "launcher/base/utf8.h"

namespace trainrun::cli {

namespace {

Error unknown_flag(std::string_view word) {
  std::vector<std::string> names;
  for (const auto* flag : flags_cut_to(horovod_line(), word)) names.emplace_back(flag->name);
  if (!names.empty())
    return {Code::usage, fmt::format("{} may be {}", quoted(word, 40), fmt::join(names, " or ")),
            "write more of it"};
  const auto near = nearest_flag(horovod_line(), word.substr(0, word.find('=')));
  return {Code::usage, fmt::format("horovodrun has no option {}", quoted(word, 40)),
          near ? fmt::format("did you mean {}?", *near)
               : "man trainrun-horovod lists them; trainrun's own may be given as well"};
}

// `by_name`: its -v asks for the version; else that is ours.
CommandLine make_line(bool by_name) {
  CommandLine line{
      .program = true, .shortened = horovod_flags().size(), .unknown = unknown_flag, .misfit = misfit};
  for (const auto& row : horovod_flags()) {
    auto& flag = line.flags.emplace_back(Flag{.name = row.names.front(),
                                              .aliases = {row.names.begin() + 1, row.names.end()},
                                              .takes = row.takes,
                                              .value_name = row.takes == Takes::a_value      ? "VALUE"
                                                            : row.takes == Takes::two_values ? "MIN MAX"
                                                                                             : ""});
    if (!by_name) std::erase(flag.aliases, "-v");
  }
  line.flags.insert(line.flags.end(), job_line().flags.begin(), job_line().flags.end());
  return line;
}

const CommandLine& line_without_its_v() {
  static const CommandLine line = make_line(false);
  return line;
}

const Flag& own_flag(const Flag& flag, const CommandLine& line) {
  return job_line().flags[static_cast<std::size_t>(&flag - line.flags.data()) - horovod_flags().size()];
}

class Reader {
 public:
  Reader(HorovodLine& out, const CommandLine& line, const Inputs& inputs)
      : out_(out), line_(line), inputs_(inputs), part_(out.line.parts.front()) {}

  Result<void> take(Given given) {
    const auto* row = row_of(*given.flag, line_);
    if (row == nullptr) return take_flag(own_flag(*given.flag, line_), std::move(given), part_);
    if (auto ok = choose(*row, given.spelled); !ok) return ok;
    switch (row->fate) {
      case Fate::works:
        put(row->option, row->value.empty() ? given.value : std::string(row->value), given.spelled);
        return {};
      case Fate::reads:
        return read(*row, given);
      case Fate::needless:
        part_.left_out.push_back({given.spelled, row->why});
        return {};
      case Fate::refused:
        return fail(Code::usage, fmt::format("{} is not supported", given.spelled), std::string(row->why));
    }
    return {};
  }

  // After all flags: what they say goes before the configuration file, wherever they stand.
  Result<void> finish() {
    if (auto ok = read_config(); !ok) return ok;
    const bool tunes = value("HOROVOD_AUTOTUNE") == "1", has_timeline = !value("HOROVOD_TIMELINE").empty();
    obey_rather_than_environment();
    for (const auto& [variable, setting] : variables_) {
      // As horovodrun does: without --autotune, or a timeline, what belongs to it says nothing.
      if (variable.starts_with("HOROVOD_AUTOTUNE") && !tunes) continue;
      if (variable == "HOROVOD_TIMELINE_MARK_CYCLES" && !has_timeline) continue;
      put(Option::export_name, variable + "=" + setting.value, setting.origin);
    }
    if (!networks_.empty()) {
      put(Option::network_interface, networks_.front().value, networks_.front().origin);
      std::vector<std::string> names;
      for (const auto& network : networks_) names.push_back(network.value);
      if (names.size() > 1 || is_set("NCCL_SOCKET_IFNAME"))
        put(Option::export_name, fmt::format("NCCL_SOCKET_IFNAME={}", fmt::join(names, ",")),
            networks_.front().origin);
      for (const std::string variable : {"HOROVOD_GLOO_IFACE", "GLOO_SOCKET_IFNAME"})
        if (is_set(variable))
          put(Option::export_name, variable + "=" + networks_.front().value, networks_.front().origin);
    }
    add_defaults();
    return read_environment();
  }

 private:
  // In the environment alone: -x is a part of the line.
  [[nodiscard]] bool is_set(std::string_view name) const {
    return !cli::variable(inputs_.environment, name).empty() &&
           std::none_of(part_.settings.begin(), part_.settings.end(), [&](const Setting& it) {
             return it.option == Option::export_name && it.value.substr(0, it.value.find('=')) == name;
           });
  }

  // Variables that are left over from another run choose no other controller than the line does.
  void obey_rather_than_environment() {
    if (value("HOROVOD_CONTROLLER") == "mpi") return;
    for (const std::string name : {"HOROVOD_CONTROLLER", "HOROVOD_CPU_OPERATIONS"})
      if (is_set(name))
        variables_.insert_or_assign(name, Setting{Option::export_name, "gloo", std::string(as_horovodrun)});
  }

  // As horovodrun's argparse does, in its words.
  Result<void> choose(const HorovodFlag& row, const std::string& spelled) {
    const bool controller = row.option == Option::compat || row.how == HorovodHow::mpi;
    const bool hosts = row.option == Option::host || row.option == Option::hostfile;
    if (!controller && !hosts && (row.variable.empty() || row.value.empty())) return {};
    const auto question = controller ? "--gloo or --mpi" : hosts ? "which hosts" : row.variable;
    const auto answer = hosts ? row.names.front() : row.value;
    const auto [first, is_first] = chosen_.try_emplace(question, answer, spelled);
    if (is_first || first->second.first == answer) return {};
    return fail(Code::usage,
                fmt::format("argument {}: not allowed with argument {}", spelled, first->second.second),
                "leave one of them out");
  }

  // Seconds that it takes from variables where no flag says them.
  Result<void> read_environment() {
    constexpr std::pair<std::string_view, Option> all[] = {
        {"HOROVOD_START_TIMEOUT", Option::start_timeout},
        {"HOROVOD_ELASTIC_TIMEOUT", Option::elastic_timeout}};
    for (const auto& [name, option] : all) {
      auto seconds = variable(inputs_.environment, name);
      if (seconds.empty() || seconds == "0" || given(option)) continue;
      if (parse_unsigned<std::uint32_t>(seconds).value_or(0) == 0)
        return fail(Code::config, fmt::format("{}: {} is not a number of seconds", name, quoted(seconds, 40)),
                    fmt::format("unset it, or write {} SECONDS", info(option).name));
      out_.line.environment.push_back({option, std::move(seconds), std::string(name)});
    }
    return {};
  }

  [[nodiscard]] bool given(Option option) const {
    return std::any_of(part_.settings.begin(), part_.settings.end(),
                       [option](const Setting& it) { return it.option == option; });
  }

  // The weakest layer. Whoever is started by horovodrun is one of Horovod's, whatever its files tell.
  void add_defaults() {
    constexpr auto origin = as_horovodrun;
    out_.line.defaults.push_back({Option::env, "all", std::string(origin)});
    if (!given(Option::max_np) && (given(Option::min_np) || given(Option::host_discovery_script)))
      out_.line.defaults.push_back({Option::max_np, std::to_string(unbounded_ranks), std::string(origin)});
    if (value("HOROVOD_CONTROLLER") != "mpi")
      out_.line.defaults.push_back({Option::compat, "horovod", std::string(origin)});
  }

  Result<void> read(const HorovodFlag& row, const Given& given) {
    switch (row.how) {
      case HorovodHow::none:
        return {};
      case HorovodHow::variable:
        return set(row, row.value.empty() ? given.value : std::string(row.value), given.spelled, true);
      case HorovodHow::config_file:
        config_ = {Option::config, given.value, given.spelled};
        return {};
      case HorovodHow::check_build:
        out_.check_build = true;
        return {};
      case HorovodHow::networks:
        for (const auto name : split(given.value, ','))
          if (!trim(name).empty())
            networks_.push_back({Option::network_interface, std::string(trim(name)), given.spelled});
        return {};
      case HorovodHow::mpi:
        variables_["HOROVOD_CONTROLLER"] =
            variables_["HOROVOD_CPU_OPERATIONS"] = {Option::export_name, "mpi", given.spelled};
        return {};
    }
    return {};
  }

  Result<void> set(const HorovodFlag& row, const std::string& given, const std::string& origin,
                   bool by_flag) {
    auto value = value_of_variable(row.knob, given, by_flag);
    if (!value) return fail(by_flag ? Code::usage : Code::config, origin + ": " + value.error().message);
    Setting setting{Option::export_name, std::move(*value), origin};
    if (by_flag)
      variables_.insert_or_assign(std::string(row.variable), std::move(setting));
    else
      variables_.try_emplace(std::string(row.variable), std::move(setting));
    return {};
  }

  Result<void> read_config() {
    if (config_.value.empty()) return {};
    const auto content = inputs_.read_file(absolute_path(config_.value, inputs_));
    if (!content) return fail(Code::config, fmt::format("{}: {}", config_.origin, content.error().message));
    const auto values = read_yaml(*content, printable(config_.value));
    if (!values) return tl::unexpected(values.error());
    for (const auto& value : *values) {
      if (auto ok = take_from_file(value); !ok) return ok;
    }
    return {};
  }

  Result<void> take_from_file(const YamlValue& it) {
    if (it.key == "controller") return controller(it);
    struct Switch {
      std::string_view key, variable, on, off;
    };
    constexpr Switch all[] = {
        {"params.hierarchical_allreduce", "HOROVOD_HIERARCHICAL_ALLREDUCE", "1", "0"},
        {"params.hierarchical_allgather", "HOROVOD_HIERARCHICAL_ALLGATHER", "1", "0"},
        {"params.torus_allreduce", "HOROVOD_TORUS_ALLREDUCE", "1", "0"},
        {"autotune.enabled", "HOROVOD_AUTOTUNE", "1", "0"},
        {"timeline.mark_cycles", "HOROVOD_TIMELINE_MARK_CYCLES", "1", "0"},
        {"stall_check.enabled", "HOROVOD_STALL_CHECK_DISABLE", "0", "1"},
        {"library_options.mpi_threads_disable", "HOROVOD_MPI_THREADS_DISABLE", "1", "0"},
        {"logging.with_timestamp", "HOROVOD_LOG_HIDE_TIME", "0", "1"}};
    for (const auto& [key, variable, on, off] : all) {
      if (key != it.key) continue;
      const auto yes = yaml_bool(it.value);
      if (!yes)
        return fail(Code::config,
                    fmt::format("{}: {} is not true or false", it.origin, quoted(it.value, 40)));
      variables_.try_emplace(std::string(variable),
                             Setting{Option::export_name, std::string(*yes ? on : off), it.origin});
      return {};
    }
    for (const auto& row : horovod_flags())
      if (!row.yaml.empty() && row.yaml == it.key) return set(row, it.value, it.origin, false);
    out_.line.notes.push_back(
        fmt::format("{}: horovodrun has no setting {}: it is ignored", it.origin, quoted(it.key, 60)));
    return {};
  }

  Result<void> controller(const YamlValue& it) {
    const bool by_flag = variables_.contains("HOROVOD_CONTROLLER") ||
                         std::any_of(part_.settings.begin(), part_.settings.end(),
                                     [](const Setting& setting) { return setting.option == Option::compat; });
    const bool gloo = lower(it.value) == "gloo";
    if (!gloo && lower(it.value) != "mpi")
      return fail(Code::config, fmt::format("{}: {} is not gloo or mpi", it.origin, quoted(it.value, 40)));
    if (by_flag) return {};
    if (gloo)
      put(Option::compat, "horovod", it.origin);
    else
      variables_["HOROVOD_CONTROLLER"] =
          variables_["HOROVOD_CPU_OPERATIONS"] = {Option::export_name, "mpi", it.origin};
    return {};
  }

  [[nodiscard]] std::string value(const std::string& variable) const {
    const auto it = variables_.find(variable);
    return it == variables_.end() ? std::string() : it->second.value;
  }

  void put(Option option, std::string value, const std::string& origin) {
    part_.settings.push_back({option, std::move(value), origin});
  }

  HorovodLine& out_;
  const CommandLine& line_;
  const Inputs& inputs_;
  ArgvPart& part_;
  std::map<std::string, Setting> variables_;
  std::map<std::string_view, std::pair<std::string_view, std::string>> chosen_;  // the value, by which word
  std::vector<Setting> networks_;
  Setting config_{Option::config, {}, {}};
};

}  // namespace

Result<HorovodLine> read_horovod_line(const std::vector<std::string>& words, const Inputs& inputs,
                                      bool by_name) {
  const auto& line = by_name ? horovod_line() : line_without_its_v();
  auto given = split_parts(line, words);
  if (!given) return tl::unexpected(given.error());
  if (given->size() > 1)
    return fail(Code::usage, "horovodrun starts one program: a word ':' begins another",
                "write trainrun for several programs");
  HorovodLine out;
  out.line.parts.resize(1);
  Reader reader(out, line, inputs);
  for (auto& flag : given->front().flags)
    if (auto ok = reader.take(std::move(flag)); !ok) return tl::unexpected(ok.error());
  if (auto ok = reader.finish(); !ok) return tl::unexpected(ok.error());
  out.line.parts.front().program = std::move(given->front().program);
  return out;
}

const CommandLine& horovod_line() {
  static const CommandLine line = make_line(true);
  return line;
}

const HorovodFlag* row_of(const Flag& flag, const CommandLine& line) {
  const auto at = static_cast<std::size_t>(&flag - line.flags.data());
  return at < horovod_flags().size() ? &horovod_flags()[at] : nullptr;
}

std::string horovod_help() {
  std::string out =
      "usage: horovodrun [options] program [arguments]\n\n"
      "This horovodrun is trainrun. The options of horovodrun 0.28.1 work, have no effect, or are refused\n"
      "with what to write instead. trainrun's own may be given as well: trainrun --help. More: man\n"
      "trainrun-horovod.\n";
  const auto list = [&](std::string_view title, auto wanted) {
    std::vector<std::string> names;
    for (const auto& row : horovod_flags())
      if (wanted(row.fate)) names.push_back(fmt::format("{}", fmt::join(row.names, " ")));
    out += flag_list(title, names);
  };
  list("These work:", [](Fate fate) { return fate == Fate::works || fate == Fate::reads; });
  list("These have no effect, which is said:", [](Fate fate) { return fate == Fate::needless; });
  list("These are refused:", [](Fate fate) { return fate == Fate::refused; });
  return out;
}

}  // namespace trainrun::cli
