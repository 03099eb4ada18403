#include "host-discovery/slurm.h"

#include <fmt/format.h>

#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "host-discovery/hostlist.h"
#include "launcher/base/strings.h"

namespace trainrun::hosts {
namespace {

constexpr std::size_t most_components = 128;  // Slurm's own limit of a heterogeneous job
constexpr std::string_view way_out = "name the hosts with -H, or ignore Slurm with --hosts-from none";

// The batch script, its extern and interactive twins have step ids too, but are no steps of the user: they
// stand for the job. Slurm numbers them from 2^32 - 6 up.
bool is_real_step(std::string_view id) {
  const auto number = parse_unsigned<std::uint32_t>(id);
  return number && *number < 0xfffffffaU;
}

// The first of two spellings that is set and not empty, with its name.
struct Variable {
  std::string name, value;
};
std::optional<Variable> first_of(const EnvLookup& env, std::initializer_list<std::string> names) {
  for (const auto& name : names) {
    if (auto value = env(name); value && !value->empty()) return Variable{name, std::move(*value)};
  }
  return std::nullopt;
}

Result<std::vector<Host>> component(const std::optional<Variable>& nodes,
                                    const std::optional<Variable>& counts, std::string_view wanted) {
  if (!nodes) {
    return fail(Code::config, fmt::format("inside a Slurm job, but {} is not set", wanted),
                std::string(way_out));
  }
  auto names = expand_hostlist(nodes->value);
  if (!names) {
    return fail(Code::config, fmt::format("{}: {}", nodes->name, names.error().message),
                std::string(way_out));
  }
  if (names->empty()) {
    return fail(Code::config, fmt::format("{} names no host: {}", nodes->name, quoted(nodes->value)),
                std::string(way_out));
  }
  std::vector<Host> hosts;
  hosts.reserve(names->size());
  for (auto& name : *names) hosts.push_back(Host{std::move(name)});
  if (!counts) return hosts;

  const auto slots = expand_counts(counts->value, most_hosts);
  if (!slots) {
    return fail(Code::config, fmt::format("{}: {}", counts->name, slots.error().message),
                std::string(way_out));
  }
  if (slots->size() != hosts.size()) {
    return fail(Code::config,
                fmt::format("{} has {} count{} for the {} host{} of {}: {}", counts->name, slots->size(),
                            slots->size() == 1 ? "" : "s", hosts.size(), hosts.size() == 1 ? "" : "s",
                            nodes->name, quoted(counts->value)),
                std::string(way_out));
  }
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    hosts[i].slots = (*slots)[i];
    hosts[i].slots_given = true;
  }
  return hosts;
}

}  // namespace

Result<std::vector<int>> expand_counts(std::string_view text, std::size_t most) {
  constexpr std::string_view hint = "counts are written as in 2(x3),1";
  if (text.size() > longest_item) {
    return fail(Code::config, fmt::format("longer than {} bytes", longest_item));
  }
  std::vector<int> counts;
  for (const auto part : split(text, ',')) {
    auto number_text = part;
    std::optional<std::uint32_t> times = 1;
    if (const auto open = part.find("(x"); open != std::string_view::npos && part.ends_with(')')) {
      number_text = part.substr(0, open);
      times = parse_unsigned<std::uint32_t>(part.substr(open + 2, part.size() - open - 3));
    }
    const auto number = parse_unsigned<std::uint16_t>(number_text);
    if (!number || *number == 0 || !times || *times == 0 || *times > most_hosts) {
      return fail(Code::config, fmt::format("{} is not a count", quoted(part)), std::string(hint));
    }
    for (std::uint32_t i = 0; i < *times && counts.size() < most; ++i) counts.push_back(*number);
  }
  return counts;
}

Result<std::vector<Host>> slurm_hosts(const EnvLookup& env) {
  if (!first_of(env, {"SLURM_JOB_ID", "SLURM_JOBID"})) return std::vector<Host>{};

  if (const auto step = first_of(env, {"SLURM_STEP_ID", "SLURM_STEPID"}); step && is_real_step(step->value)) {
    return component(first_of(env, {"SLURM_STEP_NODELIST"}), first_of(env, {"SLURM_STEP_TASKS_PER_NODE"}),
                     "SLURM_STEP_NODELIST");
  }
  const auto size = first_of(env, {"SLURM_HET_SIZE", "SLURM_PACK_SIZE"});
  if (!size) {
    return component(first_of(env, {"SLURM_JOB_NODELIST", "SLURM_NODELIST"}),
                     first_of(env, {"SLURM_TASKS_PER_NODE"}), "SLURM_JOB_NODELIST");
  }
  const auto components = parse_unsigned<std::uint32_t>(size->value);
  if (!components || *components == 0 || *components > most_components) {
    return fail(Code::config,
                fmt::format("{} is {}, where a number from 1 to {} was expected", size->name,
                            quoted(size->value), most_components),
                std::string(way_out));
  }
  std::vector<Host> hosts;
  for (std::uint32_t i = 0; i < *components; ++i) {
    const auto pick = [&](std::string_view stem) {
      return first_of(env,
                      {fmt::format("{}_HET_GROUP_{}", stem, i), fmt::format("{}_PACK_GROUP_{}", stem, i)});
    };
    auto more = component(pick("SLURM_JOB_NODELIST"), pick("SLURM_TASKS_PER_NODE"),
                          fmt::format("SLURM_JOB_NODELIST_HET_GROUP_{}", i));
    if (!more) return more;
    hosts.insert(hosts.end(), std::make_move_iterator(more->begin()), std::make_move_iterator(more->end()));
  }
  return hosts;
}

Result<std::vector<Host>> live_slurm_hosts(std::string_view output, const EnvLookup& env) {
  auto names = expand_hostlist(output);
  if (!names) return tl::unexpected(names.error());
  std::unordered_map<std::string, Host> known;
  if (auto hosts = slurm_hosts(env)) {  // if not, the live list still counts
    for (auto& host : *hosts) known.try_emplace(host.name, std::move(host));
  }
  std::vector<Host> hosts;
  hosts.reserve(names->size());
  for (auto& name : *names) {
    const auto found = known.find(name);
    hosts.push_back(found == known.end() ? Host{std::move(name)} : found->second);
  }
  return hosts;
}

}  // namespace trainrun::hosts
