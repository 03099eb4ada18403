#include "cli/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "cli/allocation.h"
#include "cli/argv.h"
#include "cli/completion.h"
#include "cli/config_file.h"
#include "cli/elastic.h"
#include "cli/environment.h"
#include "cli/horovod_line.h"
#include "cli/host_choice.h"
#include "cli/host_words.h"
#include "cli/mapping.h"
#include "cli/mpi_line.h"
#include "cli/open_mpi_names.h"
#include "cli/parse.h"
#include "cli/part_hosts.h"
#include "cli/parts.h"
#include "cli/per_host.h"
#include "cli/print_config.h"
#include "cli/program.h"
#include "cli/program_search.h"
#include "cli/resolve.h"
#include "cli/settings.h"
#include "cli/subcommands.h"
#include "cli/torch_environment.h"
#include "cli/usage.h"
#include "cli/value.h"
#include "cli/whose_line.h"
#include "launcher/base/rank_ranges.h"
#include "launcher/base/strings.h"
#include "launcher/base/utf8.h"

namespace trainrun::cli {

namespace {

Result<std::string> completion_text(const std::vector<std::string>& words) {
  const auto parsed = parse(completion_line(), words);
  if (!parsed) return tl::unexpected(parsed.error());
  if (asks_for_help(*parsed)) return completion_help();
  return completion(parsed->words.empty() ? "" : parsed->words.front());
}

// A word that is a command of ours when it is the very first one.
Result<Request> subcommand(const std::vector<std::string>& words) {
  Request out;
  out.rest.assign(words.begin() + 1, words.end());
  if (words.front() == "agent") {
    out.action = Action::agent;
  } else if (words.front() == "rendezvous") {
    out.action = Action::rendezvous;
  } else if (words.front() == "ctl") {
    out.action = Action::ctl;
  } else if (words.front() == "replay") {
    out.action = Action::replay;
  } else if (words.front() == "comm-info") {
    out.action = Action::comm_info;
  } else if (words.front() == "help") {
    out.action = Action::help;
    out.text = words.back() == "all" ? long_help() : short_help();
  } else {
    out.action = Action::completion;
    auto text = completion_text(out.rest);
    if (!text) return tl::unexpected(text.error());
    out.text = std::move(*text);
  }
  return out;
}

bool is_subcommand(const std::vector<std::string>& words) {
  constexpr std::string_view ours[] = {"agent",     "rendezvous", "ctl", "replay",
                                       "comm-info", "completion", "help"};
  return !words.empty() && std::find(std::begin(ours), std::end(ours), words.front()) != std::end(ours);
}

bool has_program(const ArgvPart& part) {
  return !part.program.empty() ||
         std::any_of(part.settings.begin(), part.settings.end(),
                     [](const Setting& setting) { return setting.option == Option::module; });
}

const Setting* find(const std::vector<Setting>& settings, Option option) {
  const auto found = std::find_if(settings.rbegin(), settings.rend(),
                                  [&](const Setting& setting) { return setting.option == option; });
  return found == settings.rend() ? nullptr : &*found;
}

// --help, --version and --print-options answer at once, whatever else is wrong.
std::optional<Request> answer(const MpiLine& line, const std::optional<ForeignLine>& as,
                              const std::string& called_as) {
  const bool as_mpi = as && !as->horovod, as_horovod = as && as->horovod;
  for (const auto& part : line.parts) {
    for (const auto& setting : part.settings) {
      Request out;
      if (setting.option == Option::help) {
        out.action = Action::help;
        out.text = as_mpi                              ? mpi_help()
                   : as_horovod                        ? horovod_help()
                   : called_as.starts_with("torchrun") ? help_as_torchrun(setting.value == "all")
                   : setting.value == "all"            ? long_help()
                                                       : short_help();
        return out;
      }
      if (setting.option == Option::print_options) {
        out.action = Action::help;
        out.text = print_options();
        return out;
      }
      if (setting.option == Option::version) {
        out.action = Action::version;
        out.text = as_horovod ? horovod_version_text()
                              : version_text(as_mpi ? called_as : "", line.ways == Ways::open_mpi);
        return out;
      }
    }
  }
  return std::nullopt;
}

Result<ConfigFile> config_file(const std::vector<Setting>& flags, const std::vector<Setting>& environment,
                               const Inputs& inputs) {
  const Setting* where = find(flags, Option::config);
  if (where == nullptr) where = find(environment, Option::config);
  if (where == nullptr) return ConfigFile{};
  if (auto ok = check_setting(*where); !ok) return tl::unexpected(ok.error());
  auto content = inputs.read_file(absolute_path(where->value, inputs));
  if (!content) return fail(Code::config, fmt::format("{}: {}", where->origin, content.error().message));
  return read_config_file(*content, printable(where->value));
}

Action action_of(const Settings& settings) {
  if (settings.flag(Option::print_config)) return Action::print_config;
  if (settings.flag(Option::dry_run)) return Action::dry_run;
  if (settings.flag(Option::check_hosts)) return Action::check_hosts;
  return Action::run;
}

Result<MpiLine> own_line(const Inputs& inputs) {
  // TRAINRUN_COMPAT_CLI=none, or --compat-cli none, which is the first word.
  auto words = inputs.argv;
  const auto* first = words.empty() ? nullptr : find_option(words.front().substr(0, words.front().find('=')));
  if (first != nullptr && first->option == Option::compat_cli)
    words.erase(words.begin(), words.begin() + (words.front().find('=') == std::string::npos ? 2 : 1));
  auto parts = split_argv(words);
  if (!parts) return tl::unexpected(parts.error());
  return MpiLine{.parts = std::move(*parts)};
}

// Without any count torchrun starts one rank a host.
void add_torchrun_defaults(MpiLine& line, const Inputs& inputs,
                           const std::vector<const std::vector<Setting>*>& layers) {
  if (!inputs.called_as.starts_with("torchrun")) return;
  for (const auto* layer : layers) {
    for (const auto option : {Option::np, Option::ppn, Option::map_by, Option::min_np, Option::max_np}) {
      if (find(*layer, option) != nullptr) return;
    }
  }
  const bool counted = std::any_of(line.parts.begin(), line.parts.end(), [](const ArgvPart& part) {
    return find(part.settings, Option::np) != nullptr;
  });
  if (!counted) line.defaults.push_back({Option::ppn, "1", "as torchrun does"});
}

Result<MpiLine> horovod_line_of(const ForeignLine& call, const Inputs& inputs, bool& check_build) {
  auto read = read_horovod_line(call.words, inputs, call.by_name);
  if (!read) return tl::unexpected(read.error());
  check_build = read->check_build;
  return std::move(read->line);
}

// Only Horovod knows what it was built with: the launcher that lies beside it says it.
Request build_check(const ArgvPart& part) {
  Request out;
  out.action = Action::check_build;
  const auto& program = part.program;
  const bool is_python =
      !program.empty() && program.front().substr(program.front().rfind('/') + 1).starts_with("python");
  constexpr std::string_view asks =
      "import importlib.util, runpy, sys\n"
      "if importlib.util.find_spec('horovod') is None:\n"
      "    sys.exit('trainrun: --check-build: there is no Horovod for ' + sys.executable + '\\n'\n"
      "             '  try: name the Python that has it: horovodrun --check-build /venv/bin/python')\n"
      "sys.argv = ['horovodrun', '--check-build']\n"
      "runpy.run_module('horovod.runner.launch', run_name='__main__')\n";
  out.rest = {is_python ? program.front() : "python3", "-c", std::string(asks)};
  return out;
}

// --display-map and --display-allocation.
void add_plan(const MpiLine& line, Request& out) {
  const JobSpec& job = out.job;
  if (!line.show_hosts && !line.show_ranks) return;
  const auto placed = first_world(job);
  for (std::size_t i = 0; i < job.hosts.hosts.size(); ++i) {
    std::vector<std::uint32_t> ranks;
    for (std::size_t at = 0; placed && at < placed->seats.size(); ++at) {
      if (placed->seats[at].host.value == i) ranks.push_back(placed->seats[at].rank.value);
    }
    const auto& host = job.hosts.hosts[i];
    std::string text = fmt::format("host {}:", printable(host.name));
    if (line.show_hosts) text += " " + counted(host.slots, "slot");
    if (line.show_ranks)
      text += fmt::format("{} {} {}", line.show_hosts ? "," : "", ranks.size() == 1 ? "rank" : "ranks",
                          ranks.empty() ? "none" : as_ranges(ranks));
    out.notes.push_back(std::move(text));
  }
}

// A hint names us as we were called: `mpirun --help`. There --help has no second part.
std::string as_called(std::string hint, const Inputs& inputs) {
  const auto name = printable(inputs.called_as.substr(0, 40));
  const auto put = [&hint](std::string_view words, const std::string& others) {
    for (auto at = hint.find(words); at != std::string::npos; at = hint.find(words, at + others.size()))
      hint.replace(at, words.size(), others);
  };
  if (const auto call = foreign_line(inputs); call && *call) put("trainrun --help all", "trainrun --help");
  put("trainrun --", name + " --");
  put("trainrun [flags]", name + " [options]");
  return hint;
}

Result<Request> read(const Inputs& inputs) {
  const auto call = foreign_line(inputs);
  if (!call) return tl::unexpected(call.error());
  // An agent is started by the path of this file, which may be called mpirun.
  if (is_subcommand(inputs.argv) && (!*call || inputs.argv.front() == "agent"))
    return subcommand(inputs.argv);
  bool check_build = false;
  auto line = !*call             ? own_line(inputs)
              : (*call)->horovod ? horovod_line_of(**call, inputs, check_build)
                                 : read_mpi_line(**call, inputs);
  if (!line) return tl::unexpected(line.error());
  if (auto ready = answer(*line, *call, inputs.called_as)) return std::move(*ready);
  if (check_build) return build_check(line->parts.front());

  auto* parts = &line->parts;
  for (const auto& part : *parts) {
    if (auto ok = check_host_words(part, inputs); !ok) return tl::unexpected(ok.error());
  }
  auto left_out = notes_on_needless(*parts);
  left_out.insert(left_out.end(), line->notes.begin(), line->notes.end());
  auto flags = take_common(*parts);
  if (!flags) return tl::unexpected(flags.error());
  if (const auto* late = find(*flags, Option::compat_cli))
    return fail(Code::usage, fmt::format("{} stands behind other words", late->origin),
                "write it first: it says how they are read");
  auto environment = read_environment(inputs.environment);
  auto file = config_file(*flags, environment.settings, inputs);
  if (!file) return tl::unexpected(file.error());
  const auto torch = read_torch_environment(inputs.environment);
  if (!torch) return tl::unexpected(torch.error());
  add_torchrun_defaults(*line, inputs, {&*flags, &environment.settings, &file->settings, &torch->settings});
  auto settings = Settings::merge(
      {*flags, environment.settings, file->settings, torch->settings, line->environment, line->defaults});
  if (!settings) return tl::unexpected(settings.error());
  if (leaves_restarts_to_torchrun(*settings))
    settings->put({Option::max_restarts, "0", "as torchrun does, by --nnodes MIN:MAX"});

  Request out;
  out.notes = left_out;
  for (auto& note : notes_on_needless({{.settings = {}, .program = {}, .left_out = torch->left_out}}))
    out.notes.push_back(std::move(note));
  if (auto ok = count_per_host(*settings, inputs, out.notes); !ok) return tl::unexpected(ok.error());

  // a program of the command line replaces those of the file
  std::string program_origin = "command line";
  if (!file->programs.empty() && parts->size() == 1 && !has_program(parts->front())) {
    *parts = std::move(file->programs);
    program_origin = file->programs_origin;
  }

  if (settings->flag(Option::dry_run) && settings->flag(Option::check_hosts)) {
    return fail(Code::usage, "--dry-run logs in nowhere, and --check-hosts everywhere",
                "write one of them at a time");
  }
  out.action = action_of(*settings);
  if (out.action == Action::run) {
    if (auto ok = check_started_once(inputs.environment); !ok) return tl::unexpected(ok.error());
  }
  out.json = settings->flag(Option::json);
  const Setting* json = settings->get(Option::json);
  const bool prints_json = out.action == Action::dry_run || out.action == Action::check_hosts;
  if (out.json && !prints_json && json->origin.starts_with('-')) {
    return fail(Code::usage, "--json goes with --dry-run or --check-hosts",
                "write trainrun --dry-run --json ...");
  }
  const bool names_one = out.action == Action::check_hosts && has_program(parts->front());
  const bool needs_program = out.action == Action::run || out.action == Action::dry_run || names_one;
  auto resolved = resolve(*settings, *parts, needs_program, inputs);
  if (!resolved) return tl::unexpected(resolved.error());
  if (line->not_by_ssh && !resolved->this_host_alone) return tl::unexpected(*line->not_by_ssh);
  if (out.action == Action::check_hosts && resolved->job.elastic.discovery.kind != DiscoveryKind::none) {
    return fail(Code::usage,
                "--check-hosts needs to know the hosts, and a discovery tells them to a running job only",
                "name them instead: trainrun --check-hosts -H a,b ...");
  }
  resolved->program_origin = program_origin;
  if (*call && line->ways == Ways::hydra) deal_slots_again(resolved->job);
  if (*call && !(*call)->horovod && line->ways == Ways::open_mpi)
    if (auto ok = deal_each_program(resolved->job); !ok) return tl::unexpected(ok.error());
  resolved->job.as_mpirun =
      *call ? !(*call)->horovod && line->ways == Ways::open_mpi
            : out.action != Action::print_config && names_open_mpi(resolved->job.programs, inputs);
  resolved->job.as_mpi_launcher = resolved->job.as_mpirun || (*call && !(*call)->horovod);
  if (!settings->has(Option::hosts_from) &&
      (settings->has(Option::host) || settings->has(Option::hostfile))) {
    auto note = note_on_hosts_outside(resolved->job.hosts.hosts, resolved->hosts_origin, inputs,
                                      inputs.is_this_machine);
    if (note) out.notes.push_back(std::move(*note));
  }
  if (!settings->has(Option::hosts_from) && resolved->hosts_origin == "default") {
    if (auto note = note_on_lost_list(inputs.environment)) out.notes.push_back(std::move(*note));
  }
  if (!*call && !settings->has(Option::timeout) && !variable(inputs.environment, "MPIEXEC_TIMEOUT").empty())
    out.notes.emplace_back(
        "MPIEXEC_TIMEOUT counts for command lines of mpirun and mpiexec: write --timeout TIME here");
  for (auto& note : notes_on_idle_flags(*settings, resolved->job.elastic))
    out.notes.push_back(std::move(note));
  // Not what --print-config shows: it is to be a file that means the same elsewhere.
  if (out.action != Action::print_config && !resolved->this_host_alone &&
      settings->text(Option::resolve, "once") == "once") {
    search_programs(resolved->job, inputs, resolved->notes);
  }
  if (out.action == Action::dry_run && !resolved->this_host_alone) {
    for (auto& note : notes_on_absent(resolved->job, inputs)) out.notes.push_back(std::move(note));
  }
  if (out.action == Action::print_config) {
    out.text = print_config(*settings, *parts, *resolved);
    if (resolved->job.as_mpirun)
      out.text.insert(
          0,
          "# as mpirun: write --compat-cli openmpi before --config FILE, and ranks find Open MPI's "
          "variables\n");
    if (!is_utf8(out.text))
      return fail(Code::usage,
                  "--print-config: something in this job is not UTF-8, which a TOML file cannot hold",
                  "run it as it is, or write the words in UTF-8");
  }
  out.job = std::move(resolved->job);
  out.notes.insert(out.notes.begin(), environment.notes.begin(), environment.notes.end());
  out.notes.insert(out.notes.end(), resolved->notes.begin(), resolved->notes.end());
  add_plan(*line, out);
  return out;
}

}  // namespace

Result<Request> read_request(const Inputs& inputs) {
  auto request = read(inputs);
  if (!request && inputs.called_as != "trainrun")
    request.error().hint = as_called(std::move(request.error().hint), inputs);
  return request;
}

}  // namespace trainrun::cli
