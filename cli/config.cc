#include "cli/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "cli/argv.h"
#include "cli/completion.h"
#include "cli/config_file.h"
#include "cli/environment.h"
#include "cli/print_config.h"
#include "cli/program.h"
#include "cli/resolve.h"
#include "cli/settings.h"
#include "cli/usage.h"
#include "cli/value.h"
#include "launcher/base/strings.h"
#include "launcher/base/utf8.h"

namespace trainrun::cli {

namespace {

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
  } else if (words.front() == "help") {
    out.action = Action::help;
    out.text = words.back() == "all" ? long_help() : short_help();
  } else {
    out.action = Action::completion;
    auto script = completion(out.rest.size() == 1 ? out.rest.front() : "");
    if (!script) return tl::unexpected(script.error());
    out.text = std::move(*script);
  }
  return out;
}

bool is_subcommand(const std::vector<std::string>& words) {
  constexpr std::string_view ours[] = {"agent", "rendezvous", "ctl", "completion", "help"};
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
std::optional<Request> answer(const std::vector<ArgvPart>& parts) {
  for (const auto& part : parts) {
    for (const auto& setting : part.settings) {
      Request out;
      if (setting.option == Option::help) {
        out.action = Action::help;
        out.text = setting.value == "all" ? long_help() : short_help();
        return out;
      }
      if (setting.option == Option::print_options) {
        out.action = Action::help;
        out.text = print_options();
        return out;
      }
      if (setting.option == Option::version) {
        out.action = Action::version;
        out.text = version_text();
        return out;
      }
    }
  }
  return std::nullopt;
}

// Settings of the whole job may stand before the first program only; each part keeps what is its own.
Result<std::vector<Setting>> common_settings(std::vector<ArgvPart>& parts) {
  std::vector<Setting> common;
  const bool several = parts.size() > 1;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::vector<Setting> own;
    for (auto& setting : parts[i].settings) {
      const OptionInfo& row = info(setting.option);
      if (row.option == Option::module || (several && row.per_part())) {
        if (auto ok = check_setting(setting); !ok) return tl::unexpected(ok.error());
        own.push_back(std::move(setting));
      } else if (i > 0) {
        return fail(
            Code::usage,
            fmt::format("{} is for the whole job, so it stands before the first program", setting.origin),
            "after a ':' there can be -np, -x, --wdir and -m");
      } else {
        common.push_back(std::move(setting));
      }
    }
    parts[i].settings = std::move(own);
  }
  return common;
}

Result<ConfigFile> config_file(const std::vector<Setting>& flags, const std::vector<Setting>& environment,
                               const Inputs& inputs) {
  const Setting* where = find(flags, Option::config);
  if (where == nullptr) where = find(environment, Option::config);
  if (where == nullptr) return ConfigFile{};
  if (auto ok = check_setting(*where); !ok) return tl::unexpected(ok.error());
  auto content = inputs.read_file(absolute_path(where->value, inputs));
  if (!content) return fail(Code::config, fmt::format("{}: {}", where->origin, content.error().message));
  return read_config_file(*content, harmless(where->value));
}

Action action_of(const Settings& settings) {
  if (settings.flag(Option::print_config)) return Action::print_config;
  if (settings.flag(Option::dry_run)) return Action::dry_run;
  if (settings.flag(Option::check_hosts)) return Action::check_hosts;
  return Action::run;
}

}  // namespace

Result<Request> read_request(const Inputs& inputs) {
  if (is_subcommand(inputs.argv)) return subcommand(inputs.argv);
  auto parts = split_argv(inputs.argv);
  if (!parts) return tl::unexpected(parts.error());
  if (auto ready = answer(*parts)) return std::move(*ready);

  auto flags = common_settings(*parts);
  if (!flags) return tl::unexpected(flags.error());
  auto environment = read_environment(inputs.environment);
  auto file = config_file(*flags, environment.settings, inputs);
  if (!file) return tl::unexpected(file.error());
  auto settings = Settings::merge({*flags, environment.settings, file->settings});
  if (!settings) return tl::unexpected(settings.error());

  // a program of the command line replaces those of the file
  std::string program_origin = "command line";
  if (!file->programs.empty() && parts->size() == 1 && !has_program(parts->front())) {
    *parts = std::move(file->programs);
    program_origin = file->programs_origin;
  }

  Request out;
  out.action = action_of(*settings);
  out.json = settings->flag(Option::json);
  const Setting* json = settings->get(Option::json);
  if (out.json && out.action != Action::dry_run && json->origin.starts_with('-')) {
    return fail(Code::usage, "--json goes with --dry-run", "write trainrun --dry-run --json ...");
  }
  const bool needs_program = out.action == Action::run || out.action == Action::dry_run;
  auto resolved = resolve(*settings, *parts, needs_program, inputs);
  if (!resolved) return tl::unexpected(resolved.error());
  if (out.action == Action::check_hosts && resolved->job.elastic.discovery.kind != DiscoveryKind::none) {
    return fail(Code::usage,
                "--check-hosts needs to know the hosts, and a discovery tells them to a running job only",
                "name them instead: trainrun --check-hosts -H a,b ...");
  }
  resolved->program_origin = program_origin;
  if (out.action == Action::print_config) {
    out.text = print_config(*settings, *parts, *resolved);
    if (!is_utf8(out.text))
      return fail(Code::usage,
                  "--print-config: something in this job is not UTF-8, which a TOML file cannot hold",
                  "run it as it is, or write the words in UTF-8");
  }
  out.job = std::move(resolved->job);
  out.notes = std::move(environment.notes);
  out.notes.insert(out.notes.end(), resolved->notes.begin(), resolved->notes.end());
  return out;
}

}  // namespace trainrun::cli
