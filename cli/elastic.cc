#include "cli/elastic.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "cli/discovery_script.h"
#include "cli/elastic_value.h"
#include "cli/program.h"
#include "launcher/base/strings.h"
#include "launcher/core/replan.h"

namespace trainrun::cli {

namespace {

constexpr std::int64_t max_ranks = 1'000'000;

// "--min-np 8", and where it stands unless that is the flag itself: "--min-np 8 (job.toml:3:9)".
std::string said(const Settings& settings, Option option) {
  const Setting& setting = *settings.get(option);
  if (setting.origin.starts_with('-')) return fmt::format("{} {}", setting.origin, setting.value);
  return fmt::format("{} {} ({})", info(option).name, setting.value, setting.origin);
}

std::string origin_of(const Settings& settings, Option option) {
  return settings.has(option) ? settings.get(option)->origin : std::string();
}

bool has_range(const Settings& settings) {
  const Setting* nnodes = settings.get(Option::nnodes);
  const auto range = nnodes == nullptr ? std::nullopt : parse_host_range(nnodes->value);
  return range && range->min < range->max;
}

// The first of those that make no sense when a failure ends the job.
std::optional<Option> changes_the_world(const Settings& settings) {
  for (const auto option :
       {Option::host_discovery_script, Option::discover, Option::min_np, Option::max_np}) {
    if (settings.has(option)) return option;
  }
  return has_range(settings) ? std::optional(Option::nnodes) : std::nullopt;
}

std::optional<Option> asks_for_elastic(const Settings& settings) {
  if (const auto option = changes_the_world(settings)) return option;
  for (const auto option : {Option::reset_limit, Option::max_restarts}) {
    if (settings.has(option)) return option;
  }
  return settings.number(Option::spares, 0) > 0 ? std::optional(Option::spares) : std::nullopt;
}

Result<void> not_both(const Settings& settings, Option first, Option second, std::string_view what) {
  if (!settings.has(first) || !settings.has(second)) return {};
  return fail(Code::usage,
              fmt::format("{} and {} both say {}", said(settings, first), said(settings, second), what),
              "keep one of them");
}

Result<DiscoverySpec> read_discovery(const Settings& settings, const Inputs& inputs) {
  if (auto ok =
          not_both(settings, Option::host_discovery_script, Option::discover, "where the hosts come from");
      !ok)
    return tl::unexpected(ok.error());
  DiscoverySpec out;
  const Setting* setting = settings.get(Option::discover);
  if (setting != nullptr) out = parse_discovery(setting->value).value_or(out);
  if (const Setting* script = settings.get(Option::host_discovery_script)) {
    setting = script;
    out.kind = DiscoveryKind::script;
    out.source = script->value;
  }
  out.default_slots_given = settings.has(Option::slots_per_host) || settings.has(Option::ppn);
  out.default_slots = settings.number(Option::slots_per_host, settings.number(Option::ppn, 1));
  if (setting == nullptr) return out;

  for (const auto option : {Option::host, Option::hostfile, Option::hosts_from}) {
    const Setting* named = settings.get(option);
    if (named == nullptr || (option == Option::hosts_from && named->value == "none")) continue;
    return fail(Code::usage,
                fmt::format("{} and {} both say which hosts", setting->origin, said(settings, option)),
                fmt::format("drop {}: the first hosts come from the discovery too", named->origin));
  }
  if (out.kind == DiscoveryKind::file) out.source = absolute_path(out.source, inputs);
  if (out.kind == DiscoveryKind::slurm && variable(inputs.environment, "SLURM_JOB_ID").empty() &&
      variable(inputs.environment, "SLURM_JOBID").empty()) {
    return fail(
        Code::config,
        fmt::format("{} slurm: this is not inside a Slurm job (SLURM_JOB_ID is not set)", setting->origin),
        "start it with sbatch or salloc, or write --discover script:CMD");
  }
  if (out.kind == DiscoveryKind::script) {
    if (auto ok = check_discovery_script(setting->origin, out.source, inputs); !ok)
      return tl::unexpected(ok.error());
  }
  return out;
}

Result<RestartLimit> read_limit(const Settings& settings) {
  if (auto ok = not_both(settings, Option::reset_limit, Option::max_restarts, "how many restarts"); !ok)
    return tl::unexpected(ok.error());
  RestartLimit limit;
  if (settings.has(Option::max_restarts)) {
    limit.count = settings.number(Option::max_restarts, 0);
    limit.window = whole_job;
  } else if (const Setting* setting = settings.get(Option::reset_limit)) {
    limit = parse_restart_limit(setting->value).value_or(limit);
  }
  return limit;
}

Result<OnFailure> read_policy(const Settings& settings) {
  const Setting* setting = settings.get(Option::on_failure);
  if (setting == nullptr) return asks_for_elastic(settings) ? OnFailure::automatic : OnFailure::abort;
  if (setting->value == "restart-world") return OnFailure::restart_world;
  if (setting->value == "in-place") return OnFailure::in_place;
  if (setting->value == "auto") return OnFailure::automatic;
  const bool ignores = setting->value == "ignore";
  if (const auto option = changes_the_world(settings)) {
    return fail(Code::usage,
                fmt::format("{} {}, and {} is for a job that {}", said(settings, Option::on_failure),
                            ignores ? "starts no rank anew" : "ends the job at the first failure",
                            said(settings, *option), ignores ? "does" : "goes on"),
                "drop one of them; --on-failure auto is the default of an elastic job");
  }
  return ignores ? OnFailure::ignore : OnFailure::abort;
}

// torchrun's hosts, each with --nproc-per-node ranks.
Result<Sizes> sizes_of_nnodes(const Settings& settings, const SizeFacts& facts) {
  const std::string words = said(settings, Option::nnodes);
  for (const auto option : {Option::np, Option::min_np, Option::max_np}) {
    if (auto ok = not_both(settings, Option::nnodes, option, "how many ranks"); !ok)
      return tl::unexpected(ok.error());
  }
  if (facts.programs > 1) {
    return fail(Code::usage, fmt::format("{} is for a single program", words),
                "with several, each has its own -np");
  }
  HostRange range = parse_host_range(settings.get(Option::nnodes)->value).value_or(HostRange{});
  const bool alone = range.min <= 1 && range.max > 1 && !facts.hosts_named && !facts.discovers;
  if (alone) range.max = 1;
  if (range.max == 1 && facts.ppr == 0 && facts.hosts <= 1 && !facts.discovers) return Sizes{};
  if (facts.ppr == 0) {
    return fail(Code::usage, fmt::format("{} says how many hosts, not how many ranks", words),
                "add --nproc-per-node N, the ranks of each host");
  }
  if (range.max > 1 && !facts.hosts_named && !facts.discovers) {
    return fail(Code::usage, fmt::format("{}, but no hosts were given", words),
                "add -H a,b,... or --hostfile FILE; trainrun is typed once, not on every host");
  }
  const std::int64_t min = std::int64_t{range.min} * facts.ppr, max = std::int64_t{range.max} * facts.ppr;
  if (max > max_ranks)
    return fail(Code::usage, fmt::format("{}: {} ranks are more than a million", words, max));
  if (facts.hosts_named && !facts.elastic && static_cast<std::size_t>(range.min) > facts.hosts) {
    return fail(
        Code::usage,
        fmt::format("{}, but the job has {}", words, counted(static_cast<std::int64_t>(facts.hosts), "host")),
        "name more hosts, or lower --nnodes");
  }
  Sizes out;
  const std::int64_t there = facts.discovers ? min : facts.hosts_named ? facts.room : max;
  out.np = static_cast<int>(std::clamp(there, min, max));
  out.np_origin = origin_of(settings, Option::nnodes);
  if (facts.elastic) {
    out.min = static_cast<int>(min);
    out.max = static_cast<int>(max);
    out.min_origin = out.max_origin = out.np_origin;
  }
  if (alone) out.notes.push_back(fmt::format("{}: this host alone (-H a,b,... names others)", words));
  if (min < max) {
    out.notes.push_back(fmt::format("{} with {} a host: {} to {} ranks{}", words, facts.ppr, min, max,
                                    facts.discovers ? "" : fmt::format(", {} at the start", out.np)));
  } else if (range.max > 1) {
    const auto most = static_cast<std::size_t>(range.max);
    const bool some_idle = facts.hosts_named && !facts.discovers && facts.hosts > most;
    out.notes.push_back(fmt::format(
        "{} with {} a host: {}{}", words, facts.ppr, counted(min, "rank"),
        some_idle ? fmt::format(", on the first {} of the {} hosts", range.max, facts.hosts) : ""));
  }
  return out;
}

// -np was given: is it between the bounds?
Result<void> check_order(const Settings& settings, const SizeFacts& facts, const Sizes& sizes) {
  const std::string np = facts.np_origin.starts_with('-') || facts.np_origin.empty()
                             ? fmt::format("-np {}", facts.np)
                             : fmt::format("-np {} ({})", facts.np, facts.np_origin);
  if (facts.programs > 1) {
    for (const auto option : {Option::min_np, Option::max_np}) {
      if (!settings.has(option) || settings.number(option, 0) == facts.np) continue;
      return fail(Code::usage,
                  fmt::format("{}, but the {} programs make exactly {} ranks", said(settings, option),
                              facts.programs, facts.np),
                  "a world of several programs cannot grow or shrink: drop it, or start one program");
    }
    return {};
  }
  if (sizes.min > facts.np) {
    return fail(Code::usage, fmt::format("{} is more than {}", said(settings, Option::min_np), np),
                "--min-np <= -np <= --max-np");
  }
  if (sizes.max != 0 && sizes.max < facts.np) {
    return fail(Code::usage, fmt::format("{} is less than {}", said(settings, Option::max_np), np),
                "--min-np <= -np <= --max-np");
  }
  return {};
}

}  // namespace

Result<Elastic> read_elastic(const Settings& settings, const Inputs& inputs) {
  Elastic out;
  auto policy = read_policy(settings);
  if (!policy) return tl::unexpected(policy.error());
  out.on_failure = *policy;
  auto discovery = read_discovery(settings, inputs);
  if (!discovery) return tl::unexpected(discovery.error());
  out.discovery = std::move(*discovery);
  auto limit = read_limit(settings);
  if (!limit) return tl::unexpected(limit.error());
  out.limit = *limit;

  const auto duration = [&](Option option, Duration otherwise) {
    const Setting* setting = settings.get(option);
    return setting == nullptr ? otherwise : parse_duration(setting->value).value_or(otherwise);
  };
  out.discovery.interval = duration(Option::discovery_interval, out.discovery.interval);
  out.timeout = duration(Option::elastic_timeout, out.timeout);
  out.settle = duration(Option::settle, out.settle);
  if (settings.has(Option::hang_timeout)) out.hang_timeout = duration(Option::hang_timeout, Duration::zero());
  if (const Setting* range = settings.get(Option::blacklist_cooldown_range)) {
    const auto times = parse_time_range(range->value).value_or(TimeRange{out.cooldown_min, out.cooldown_max});
    out.cooldown_min = times.min;
    out.cooldown_max = times.max;
  }
  if (const Setting* signal = settings.get(Option::leave_signal))
    out.leave_signal = parse_signal(signal->value).value_or(out.leave_signal);
  out.spares = settings.number(Option::spares, 0);
  return out;
}

bool leaves_restarts_to_torchrun(const Settings& settings) {
  return has_range(settings) && !settings.has(Option::max_restarts) && !settings.has(Option::reset_limit);
}

std::string elastic_origin(const Settings& settings) {
  if (settings.has(Option::on_failure)) return origin_of(settings, Option::on_failure);
  const auto option = asks_for_elastic(settings);
  return option ? origin_of(settings, *option) : std::string();
}

std::vector<std::string> notes_on_idle_flags(const Settings& settings, const Elastic& elastic) {
  const auto given = [&](std::initializer_list<Option> options) {
    std::vector<std::string> flags;
    for (const auto option : options) {
      if (settings.has(option) && origin_of(settings, option).starts_with('-'))
        flags.push_back(origin_of(settings, option));
    }
    return flags;
  };
  std::vector<std::string> notes;
  const auto say = [&](const std::vector<std::string>& flags, std::string_view why) {
    if (flags.empty()) return;
    notes.push_back(
        fmt::format("{} {} nothing: {}", list_names(flags), flags.size() == 1 ? "changes" : "change", why));
  };
  if (!elastic.enabled()) {
    say(given({Option::reset_limit, Option::max_restarts, Option::blacklist_cooldown_range, Option::spares,
               Option::elastic_timeout, Option::settle, Option::leave_signal}),
        elastic.on_failure == OnFailure::ignore ? "--on-failure ignore starts no rank anew"
        : settings.has(Option::on_failure)
            ? "--on-failure abort ends the job at its first failure"
            : "the job ends at its first failure; --min-np, --max-restarts or a discovery make it elastic");
  }
  if (elastic.discovery.kind == DiscoveryKind::none) {
    say(given({Option::discovery_interval}),
        "nobody is asked for hosts; --host-discovery-script or --discover say who is");
  }
  return notes;
}

Result<Sizes> choose_sizes(const Settings& settings, const SizeFacts& facts) {
  if (settings.has(Option::nnodes)) return sizes_of_nnodes(settings, facts);
  Sizes out;
  out.np = facts.np;
  out.np_origin = facts.np_origin;
  out.min = settings.number(Option::min_np, 0);
  out.max = settings.number(Option::max_np, 0);
  out.min_origin = origin_of(settings, Option::min_np);
  out.max_origin = origin_of(settings, Option::max_np);
  if (out.max != 0 && out.min > out.max) {
    return fail(
        Code::usage,
        fmt::format("{} is more than {}", said(settings, Option::min_np), said(settings, Option::max_np)),
        "--min-np <= -np <= --max-np");
  }
  if (facts.np != 0) {
    if (auto ok = check_order(settings, facts, out); !ok) return tl::unexpected(ok.error());
    return out;
  }
  if (facts.discovers && out.min == 0) {
    const bool script = settings.has(Option::host_discovery_script);
    return fail(Code::usage,
                fmt::format("{}: how many ranks? The hosts are not known yet",
                            origin_of(settings, script ? Option::host_discovery_script : Option::discover)),
                "add --min-np N, and --max-np N to let the job grow");
  }
  if (out.min == 0 && out.max == 0) return out;
  const auto take = [&](int np, const std::string& origin, const std::string& why) {
    out.np = np;
    out.np_origin = origin;
    out.notes.push_back(fmt::format("no -np: {}, {}", counted(np, "rank"), why));
  };
  if (facts.hosts_named) {
    const int spares = settings.number(Option::spares, 0);
    const int most = out.max != 0 ? out.max : static_cast<int>(max_ranks);
    const int held = std::clamp(facts.room - spares, std::max(out.min, 1), most);
    if (held != out.max) {
      take(held, "all slots of the hosts",
           fmt::format("all that the hosts hold{}", spares > 0 ? " but the spares" : ""));
      return out;
    }
  }
  if (out.max != 0 && out.max < unbounded_ranks && !facts.discovers) {
    take(out.max, out.max_origin, "as --max-np says");
  } else if (facts.discovers && out.max > out.min) {
    out.np = out.min;
    out.np_origin = out.min_origin;
    const auto most = out.max >= unbounded_ranks ? "" : fmt::format(" to {}", out.max);
    out.notes.push_back(fmt::format("no -np: {}{} ranks, as many as the hosts hold", out.min,
                                    most.empty() ? " and more" : most));
  } else {
    take(out.min, out.min_origin,
         fmt::format("as --min-np says{}", out.max == 0 ? " (--max-np allows more)" : ""));
  }
  return out;
}

int room_of(const JobSpec& job) {
  std::int64_t room = 0;
  for (const auto& host : job.hosts.hosts) room += core::slots_of(job, host);
  return static_cast<int>(std::min(room, max_ranks));
}

Result<core::Placement> first_world(const JobSpec& job) {
  constexpr Generation first{1};
  const int size = job.elastic.enabled() ? core::world_size_on(job, room_of(job)) : 0;
  if (size == 0) return core::place(job, first);
  std::vector<core::Room> rooms;
  for (std::uint32_t i = 0; i < job.hosts.hosts.size(); ++i)
    rooms.push_back({HostIndex{i}, core::slots_of(job, job.hosts.hosts[i])});
  return core::replan_all(job, first, {}, rooms, size);
}

Result<void> check_room(const Settings& settings, const JobSpec& job) {
  const int room = room_of(job);
  const bool own_minimum = settings.has(Option::min_np) || settings.has(Option::nnodes);
  if (!job.elastic.enabled() || !own_minimum || job.oversubscribe || room >= job.elastic.min_np) return {};
  const Option by = settings.has(Option::nnodes) ? Option::nnodes : Option::min_np;
  return fail(
      Code::usage,
      fmt::format("{} needs {}, the hosts have {}", said(settings, by), counted(job.elastic.min_np, "slot"),
                  room),
      "give the hosts more slots (name:slots), name more hosts, or lower it; hosts that are still to come "
      "need --host-discovery-script or --discover");
}

}  // namespace trainrun::cli
