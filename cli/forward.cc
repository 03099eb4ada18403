#include "cli/forward.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/allocation.h"
#include "cli/env_file.h"
#include "cli/horovod_line.h"
#include "cli/program.h"
#include "cli/value.h"
#include "launcher/base/strings.h"
#include "launcher/base/utf8.h"
#include "launcher/core/dialects.h"
#include "launcher/core/env_forward.h"
#include "launcher/core/env_var.h"

namespace trainrun::cli {

namespace {

constexpr std::size_t longest_shown = 60;  // of a value

void say_ours(const std::string& what, std::string_view name, std::vector<std::string>& notes) {
  notes.push_back(fmt::format("{} is not passed on: trainrun sets {} itself", what, name));
}

// A list as other launchers take it is one value here, as of mpirun's -x. Values may be secrets: only names
// are said.
void say_one_variable(const std::string& flag, const Export& given, std::vector<std::string>& notes) {
  for (const auto part :
       split(given.value->substr(std::min(given.value->find(','), given.value->size())), ',')) {
    const auto equals = part.find('=');
    if (equals == std::string_view::npos || !is_variable_name(part.substr(0, equals))) continue;
    const auto other = part.substr(0, equals);
    notes.push_back(fmt::format("{} {}=...,{}=... is one variable, {}; for two write {} {}=... {} {}=...",
                                flag, given.name, other, given.name, flag, given.name, flag, other));
    return;
  }
}

// The words after -x that count.
std::vector<std::string> exports(const std::vector<Setting>& from, std::vector<std::string>& notes) {
  std::vector<std::string> out;
  for (const auto& setting : from) {
    if (setting.option != Option::export_name) continue;
    const auto parsed = parse_export(setting.value);
    if (parsed && core::is_always_set(parsed->name)) {
      const bool flag = setting.origin.starts_with('-');
      say_ours(flag ? fmt::format("{} {}", setting.origin,
                                  printable(std::string_view(setting.value).substr(0, longest_shown)))
                    : fmt::format("{}: {}", setting.origin, parsed->name),
               parsed->name, notes);
    } else {
      if (parsed && parsed->value && setting.origin.starts_with('-'))
        say_one_variable(setting.origin, *parsed, notes);
      out.push_back(setting.value);
    }
  }
  return out;
}

void say_missing(const std::vector<std::string>& names, const std::vector<Setting>& from,
                 std::vector<std::string>& notes) {
  for (const auto& name : names) {
    const auto setting = std::find_if(from.begin(), from.end(), [&](const Setting& one) {
      return one.option == Option::export_name && one.value == name;
    });
    const bool flag = setting != from.end() && setting->origin.starts_with('-');
    notes.push_back(fmt::format("{} {}: nothing of that name is set here, so ranks do not get it",
                                flag ? setting->origin : "-x", name));
  }
}

Result<std::vector<EnvVar>> from_file(const Settings& settings, const Inputs& inputs,
                                      std::vector<std::string>& notes) {
  const Setting* setting = settings.get(Option::env_file);
  if (setting == nullptr) return std::vector<EnvVar>{};
  auto content = inputs.read_file(absolute_path(setting->value, inputs));
  if (!content) return fail(Code::config, fmt::format("{}: {}", setting->origin, content.error().message));
  auto read = read_env_file(*content, printable(setting->value));
  if (!read) return read;
  std::erase_if(*read, [&](const EnvVar& one) {
    if (!core::is_always_set(one.first)) return false;
    say_ours(fmt::format("{}: {}", printable(setting->value), one.first), one.first, notes);
    return true;
  });
  return read;
}

// Whatever the environment says of it.
void set(std::vector<EnvVar>& env, std::string_view name, std::string value) {
  const auto place =
      std::lower_bound(env.begin(), env.end(), name,
                       [](const EnvVar& one, std::string_view wanted) { return one.first < wanted; });
  if (place == env.end() || place->first != name)
    env.insert(place, {std::string(name), std::move(value)});
  else
    place->second = std::move(value);
}

// The share of cores that ranks get otherwise knows nothing of `-c`. Where they are bound to one
// core each, or --cpus-per-rank says how many they have, that counts.
void add_slurm_threads(const std::vector<EnvVar>& environment, int ranks_of_task, JobSpec& job) {
  constexpr std::string_view name = "OMP_NUM_THREADS";
  const int threads = slurm_threads(environment, ranks_of_task);
  if (threads == 0 || job.cpus_per_rank > 0 || job.bind_to == BindTo::core) return;
  if (core::find_variable(job.env, name) == nullptr) set(job.env, name, std::to_string(threads));
}

}  // namespace

Result<void> forward(const Settings& settings, const std::vector<ArgvPart>& parts, bool this_host_alone,
                     const Inputs& inputs, JobSpec& job, std::vector<std::string>& notes) {
  const auto file = from_file(settings, inputs, notes);
  if (!file) return tl::unexpected(file.error());
  EnvPolicy policy = EnvPolicy::by_default;
  if (settings.text(Option::env, "default") == "all") policy = EnvPolicy::all;
  if (settings.text(Option::env, "default") == "none") policy = EnvPolicy::none;

  const auto for_all = settings.all(Option::export_name);
  auto forwarded =
      core::forward_environment(inputs.environment, policy, this_host_alone, exports(for_all, notes), *file);
  job.env = std::move(forwarded.env);
  // What horovodrun passes on without being told is all but these.
  const auto* const all = settings.get(Option::env);
  if (all != nullptr && all->origin == as_horovodrun && !this_host_alone)
    std::erase_if(job.env, [&](const EnvVar& var) {
      return core::names_devices(var.first) &&
             std::none_of(for_all.begin(), for_all.end(), [&](const Setting& one) {
               return one.option == Option::export_name &&
                      one.value.substr(0, one.value.find('=')) == var.first;
             });
    });
  job.not_forwarded = std::move(forwarded.left_behind);
  job.inherit_all = this_host_alone && policy != EnvPolicy::none;
  say_missing(forwarded.missing, for_all, notes);
  const int on_each_host = settings.number(Option::slots_per_host, settings.number(Option::ppn, 1));
  if (settings.text(Option::hosts_from, "") != "none")
    add_slurm_threads(inputs.environment, on_each_host, job);
  if (const auto* backend = settings.get(Option::backend))
    set(job.env, "TRAINRUN_COMM_BACKEND", backend->value);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto own = exports(parts[i].settings, notes);
    if (own.empty()) continue;
    auto part = core::forward_environment(inputs.environment, EnvPolicy::none, false, own, {});
    job.programs[i].env = std::move(part.env);
    say_missing(part.missing, parts[i].settings, notes);
  }
  return {};
}

}  // namespace trainrun::cli
