#include "cli/mapping.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>

#include "cli/program.h"
#include "cli/rank_file.h"
#include "cli/value.h"
#include "host-discovery/host_key.h"
#include "host-discovery/host_list.h"
#include "launcher/base/strings.h"
#include "launcher/base/utf8.h"
#include "launcher/core/host_parts.h"

namespace trainrun::cli {
namespace {

class Mapper {
 public:
  Mapper(const Settings& settings, const Inputs& inputs, HostChoice& choice, JobSpec& job,
         std::vector<std::string>& notes)
      : settings_(settings), inputs_(inputs), choice_(choice), job_(job), notes_(notes) {}

  Result<void> read() {
    Result<void> ok = without_this_host();
    if (ok) ok = settings_.has(Option::rankfile) ? by_file() : by_counts();
    if (ok) ok = numbers();
    return ok;
  }

 private:
  Result<void> not_with_a_discovery(const Setting& setting, std::string advice) const {
    if (job_.elastic.discovery.kind == DiscoveryKind::none) return {};
    return fail(Code::usage,
                fmt::format("{}: hosts that come from a discovery are not known yet", setting.origin),
                std::move(advice));
  }

  Result<void> without_this_host() {
    if (!settings_.flag(Option::nolocal)) return {};
    const Setting& setting = *settings_.get(Option::nolocal);
    if (auto ok = not_with_a_discovery(setting, "let it leave this host out"); !ok) return ok;
    std::erase_if(choice_.hosts, [this](const Host& host) { return inputs_.is_this_machine(host); });
    if (choice_.hosts.empty())
      return fail(Code::usage, fmt::format("{}: no host but this one is named", setting.origin),
                  "name the others with -H or --hostfile");
    choice_.this_host_alone = false;
    return {};
  }

  Result<void> by_counts() {
    const auto way = parse_map_by(settings_.text(Option::map_by, "slot")).value_or(MapWay{});
    job_.map_by = way.by;
    job_.ppr = way.count;
    if (way.part != HostPart::host) count_by_part(way);
    const Setting* ppn = settings_.get(Option::ppn);
    if (ppn == nullptr) return {};
    const int count = settings_.number(Option::ppn, 0);
    if (way.by == MapBy::ppr && job_.ppr != count) {
      return fail(Code::usage,
                  fmt::format("{} {} and {} {} disagree", ppn->origin, count,
                              settings_.get(Option::map_by)->origin, settings_.text(Option::map_by, "")),
                  "keep one of them");
    }
    job_.ppr = count;
    return {};
  }

  Result<void> numbers() {
    const Setting* setting = settings_.get(Option::rank_by);
    if (setting == nullptr) return {};
    if (job_.elastic.enabled())
      return fail(Code::usage,
                  fmt::format("{} {}: the ranks of an elastic job change their places", setting->origin,
                              setting->value),
                  "leave it out: they are numbered as they are mapped");
    job_.rank_by = setting->value == "slot" ? RankBy::slot : RankBy::host;
    return {};
  }

  // How many of a part a host has is known when it was reached, and the world is planned before.
  void count_by_part(const MapWay& way) {
    const auto cpus = inputs_.local_cpus ? inputs_.local_cpus() : std::vector<wire::CpuFact>{};
    const auto parts = static_cast<int>(std::max<std::size_t>(core::parts_of(cpus, way.part).size(), 1));
    job_.per_part = {way.part, way.count, parts};
    job_.ppr = std::min(way.count * parts, 65536);
    if (!choice_.this_host_alone)
      notes_.push_back(fmt::format("{} {}: {} a host, each taken to have {}, as this one has",
                                   settings_.get(Option::map_by)->origin, settings_.text(Option::map_by, ""),
                                   counted(job_.ppr, "rank"), counted(parts, core::name_of(way.part))));
  }

  Result<void> by_file() {
    const Setting& setting = *settings_.get(Option::rankfile);
    if (auto ok = alone(setting); !ok) return ok;
    const auto text = inputs_.read_file(absolute_path(setting.value, inputs_));
    if (!text) return fail(Code::config, fmt::format("{}: {}", setting.origin, text.error().message));
    const auto name = printable(setting.value);
    const auto lines = parse_rank_file(*text, name);
    if (!lines) return tl::unexpected(lines.error());
    const bool defined = !choice_.hosts.empty();
    for (const auto& line : *lines) {
      const auto host = host_of(line, fmt::format("{}:{}", name, line.line), defined);
      if (!host) return tl::unexpected(host.error());
      job_.rank_file.push_back({*host, line.cores});
    }
    if (!defined) choice_.origin = name;
    keep_those_with_ranks();
    return {};
  }

  // Nothing else may say where ranks go.
  Result<void> alone(const Setting& setting) const {
    if (job_.elastic.enabled())
      return fail(Code::usage,
                  fmt::format("{}: the ranks of an elastic job change their places", setting.origin),
                  "leave it out, or the flags of an elastic job");
    for (const auto option : {Option::map_by, Option::rank_by, Option::ppn}) {
      const Setting* other = settings_.get(option);
      if (other == nullptr) continue;
      return fail(Code::usage,
                  fmt::format("{} and {} both say where ranks run", setting.origin, other->origin),
                  "keep one of them");
    }
    return {};
  }

  // The index of a line's host; where nobody named hosts it is one more of them.
  Result<std::uint32_t> host_of(const RankLine& line, const std::string& place, bool defined) {
    auto& hosts = choice_.hosts;
    if (line.host.starts_with("+n")) {
      const auto number = parse_unsigned<std::uint32_t>(std::string_view(line.host).substr(2));
      if (number && *number < hosts.size()) return *number;
      return fail(Code::config, fmt::format("{}: there is no host {}", place, quoted(line.host)),
                  hosts.empty() ? "name the hosts with -H or --hostfile"
                                : fmt::format("they are +n0 to +n{}", hosts.size() - 1));
    }
    auto read = hosts::parse_host_list(line.host, place);
    if (!read) return tl::unexpected(read.error());
    if (read->size() != 1 || read->front().slots_given)
      return fail(Code::config, fmt::format("{}: {} is not one host", place, quoted(line.host)),
                  "write the name of one, without slots");
    Host host = std::move(read->front());
    const bool here = inputs_.is_this_machine(host);
    const auto same = std::find_if(hosts.begin(), hosts.end(), [&](const Host& other) {
      return hosts::name_key(other.name) == hosts::name_key(host.name) ||
             (here && inputs_.is_this_machine(other));
    });
    if (same != hosts.end()) return static_cast<std::uint32_t>(same - hosts.begin());
    if (defined) {
      std::vector<std::string> names;
      for (const auto& other : hosts) names.push_back(other.name);
      return fail(
          Code::config,
          fmt::format("{}: host {} is not among those of {}", place, quoted(host.name), choice_.origin),
          fmt::format("they are {}", list_names(names)));
    }
    if (here) host.user.clear();
    hosts.push_back(std::move(host));
    return static_cast<std::uint32_t>(hosts.size() - 1);
  }

  // A host has a slot for each of its ranks, and one without any is not reached.
  void keep_those_with_ranks() {
    std::vector<Host> kept;
    std::vector<std::optional<std::uint32_t>> index(choice_.hosts.size());
    for (auto& place : job_.rank_file) {
      auto& now = index[place.host];
      if (!now) {
        now = static_cast<std::uint32_t>(kept.size());
        kept.push_back(choice_.hosts[place.host]);
        kept.back().slots = 0;
        kept.back().slots_given = true;
      }
      place.host = *now;
      ++kept[*now].slots;
    }
    choice_.hosts = std::move(kept);
    choice_.this_host_alone = std::all_of(choice_.hosts.begin(), choice_.hosts.end(),
                                          [this](const Host& host) { return inputs_.is_this_machine(host); });
  }

  const Settings& settings_;
  const Inputs& inputs_;
  HostChoice& choice_;
  JobSpec& job_;
  std::vector<std::string>& notes_;
};

}  // namespace

Result<void> read_mapping(const Settings& settings, const Inputs& inputs, HostChoice& choice, JobSpec& job,
                          std::vector<std::string>& notes) {
  return Mapper(settings, inputs, choice, job, notes).read();
}

Result<void> deal_rounds(const Settings& settings, JobSpec& job) {
  const auto hosts = job.hosts.hosts.size();
  const auto size = static_cast<std::size_t>(std::max(job.world_size(), 0));
  const Setting* ppn = settings.get(Option::ppn);
  if (ppn == nullptr || job.ppr <= 0 || hosts == 0 || job.elastic.enabled() || !job.rank_file.empty())
    return {};
  const auto each = static_cast<std::size_t>(job.ppr);
  if (size <= each * hosts) return {};
  if (!job.oversubscribe || job.map_by == MapBy::ppr) {
    return fail(
        Code::usage,
        fmt::format("{}, and {} {} on {} makes {}", counted(static_cast<std::int64_t>(size), "rank"),
                    ppn->origin, each, counted(static_cast<std::int64_t>(hosts), "host"), each * hosts),
        fmt::format("write {} {}, name more hosts, or add --oversubscribe", ppn->origin,
                    (size + hosts - 1) / hosts));
  }
  for (std::size_t rank = 0; rank < size; ++rank)
    job.rank_file.push_back({static_cast<std::uint32_t>(rank / each % hosts), {}});
  return {};
}

void deal_slots_again(JobSpec& job) {
  const auto& hosts = job.hosts.hosts;
  std::size_t slots = 0;
  for (const auto& host : hosts) slots += static_cast<std::size_t>(std::max(host.slots, 0));
  const auto size = static_cast<std::size_t>(std::max(job.world_size(), 0));
  if (job.map_by != MapBy::slot || job.ppr > 0 || job.elastic.enabled() || !job.rank_file.empty() ||
      slots == 0 || size <= slots)
    return;
  while (job.rank_file.size() < size)
    for (std::uint32_t host = 0; host < hosts.size(); ++host)
      for (int i = 0; i < hosts[host].slots && job.rank_file.size() < size; ++i)
        job.rank_file.push_back({host, {}});
}

}  // namespace trainrun::cli
