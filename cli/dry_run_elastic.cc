#include "cli/dry_run_elastic.h"

#include <fmt/format.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "cli/elastic.h"
#include "launcher/base/strings.h"

namespace trainrun::cli {
namespace {

constexpr Duration longest_window = std::chrono::hours(24 * 365);  // more is the whole life of any job

const char* name_of(OnFailure policy) {
  switch (policy) {
    case OnFailure::abort:
      return "abort";
    case OnFailure::automatic:
      return "auto";
    case OnFailure::restart_world:
      return "restart-world";
    case OnFailure::in_place:
      return "in-place";
    case OnFailure::ignore:
      return "ignore";
  }
  return "";
}

const char* meaning_of(OnFailure policy) {
  switch (policy) {
    case OnFailure::abort:
      return "the job ends";
    case OnFailure::automatic:
      return "in-place when all ranks take part in it, else restart-world";
    case OnFailure::restart_world:
      return "all ranks stop, and start again from their checkpoint";
    case OnFailure::in_place:
      return "survivors keep their process, the failed rank is replaced";
    case OnFailure::ignore:
      return "the other ranks go on";
  }
  return "";
}

const char* name_of(DiscoveryKind kind) {
  switch (kind) {
    case DiscoveryKind::none:
      return "none";
    case DiscoveryKind::script:
      return "script";
    case DiscoveryKind::file:
      return "file";
    case DiscoveryKind::dns:
      return "dns";
    case DiscoveryKind::slurm:
      return "slurm";
  }
  return "";
}

std::string name_of_signal(int number) {
  switch (number) {
    case SIGTERM:
      return "TERM";
    case SIGINT:
      return "INT";
    case SIGHUP:
      return "HUP";
    case SIGQUIT:
      return "QUIT";
    case SIGUSR1:
      return "USR1";
    case SIGUSR2:
      return "USR2";
    default:
      return fmt::format("{}", number);
  }
}

std::string sizes(const Elastic& elastic) {
  std::string out = elastic.min_np == elastic.max_np ? counted(elastic.max_np, "rank")
                    : elastic.max_np >= unbounded_ranks
                        ? fmt::format("{} and more", counted(elastic.min_np, "rank"))
                        : fmt::format("{} to {} ranks", elastic.min_np, elastic.max_np);
  if (elastic.spares > 0) out += ", " + counted(elastic.spares, "spare");
  return out;
}

std::string restarts(const RestartLimit& limit) {
  if (limit.count == 0) return "none";
  if (limit.window > longest_window) return fmt::format("at most {} in the whole job", limit.count);
  return fmt::format("at most {} within {}", limit.count, format_duration(limit.window));
}

}  // namespace

std::string discovery_words(const DiscoverySpec& discovery, const std::string& source) {
  switch (discovery.kind) {
    case DiscoveryKind::none:
      return "as named";
    case DiscoveryKind::script:
      return fmt::format("the output of {}", source);
    case DiscoveryKind::file:
      return fmt::format("the file {}", source);
    case DiscoveryKind::dns:
      return fmt::format("the addresses of {}", source);
    case DiscoveryKind::slurm:
      return "the nodes of the Slurm job";
  }
  return "";
}

std::string elastic_text(const Elastic& elastic, const std::string& source) {
  if (!elastic.enabled()) return {};
  std::string out = fmt::format("elastic: {}\n", sizes(elastic));
  const auto line = [&](std::string_view what, const std::string& text) {
    out += fmt::format("  {:<13} {}\n", what, text);
  };
  line("on failure", fmt::format("{}: {}", name_of(elastic.on_failure), meaning_of(elastic.on_failure)));
  line("restarts", restarts(elastic.limit));
  const auto& discovery = elastic.discovery;
  std::string hosts = discovery_words(discovery, source);
  if (discovery.kind == DiscoveryKind::file) {
    hosts += ", watched";  // by inotify: a change is seen at once
  } else if (discovery.kind != DiscoveryKind::none) {
    hosts += fmt::format(", looked at every {}", format_duration(discovery.interval));
  }
  if (discovery.kind != DiscoveryKind::none) {
    hosts += fmt::format("; {} where no count is given", counted(discovery.default_slots, "slot"));
  }
  line("hosts", hosts);
  line("waits", fmt::format("{} for the slots of {}", format_duration(elastic.timeout),
                            counted(elastic.min_np, "rank")));
  line("cool-down",
       fmt::format("{} to {}", format_duration(elastic.cooldown_min), format_duration(elastic.cooldown_max)));
  line("settle", format_duration(elastic.settle));
  line("hang", elastic.hang_timeout ? fmt::format("after {}", format_duration(*elastic.hang_timeout))
                                    : std::string("not looked for"));
  line("leave signal", name_of_signal(elastic.leave_signal));
  return out;
}

nlohmann::ordered_json elastic_json(const Elastic& elastic, const std::string& source) {
  using Json = nlohmann::ordered_json;
  if (!elastic.enabled()) return nullptr;
  const auto& discovery = elastic.discovery;
  const bool whole_job = elastic.limit.window > longest_window;
  return {
      {"on_failure", name_of(elastic.on_failure)},
      {"min_np", elastic.min_np},
      {"max_np", elastic.max_np},
      {"spares", elastic.spares},
      {"discovery",
       {{"kind", name_of(discovery.kind)},
        {"source", source},
        {"default_slots", discovery.default_slots},
        {"interval", in_seconds(discovery.interval)}}},
      {"reset_limit",
       {{"count", elastic.limit.count},
        {"window", whole_job ? Json(nullptr) : Json(in_seconds(elastic.limit.window))}}},
      {"cooldown", {{"min", in_seconds(elastic.cooldown_min)}, {"max", in_seconds(elastic.cooldown_max)}}},
      {"elastic_timeout", in_seconds(elastic.timeout)},
      {"settle", in_seconds(elastic.settle)},
      {"hang_timeout", elastic.hang_timeout ? Json(in_seconds(*elastic.hang_timeout)) : Json(nullptr)},
      {"leave_signal", name_of_signal(elastic.leave_signal)}};
}

}  // namespace trainrun::cli
