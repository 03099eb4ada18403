#include "cli/dry_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "cli/dry_run_elastic.h"
#include "launcher/base/rank_ranges.h"
#include "launcher/base/strings.h"
#include "launcher/core/binding.h"
#include "launcher/core/env_forward.h"
#include "launcher/core/env_var.h"
#include "launcher/core/preload.h"
#include "launcher/core/scheduling.h"
#include "launcher/core/shown_words.h"
#include "launcher/core/worker_env.h"

namespace trainrun::cli {
namespace {

using Env = std::map<std::string, std::string>;

constexpr std::size_t longest_shown = 2000;  // of one value, in the text
constexpr std::size_t line_width = 110;

const char* mapping_of(const JobSpec& job) {
  if (!job.rank_file.empty())
    return job.ppr > 0 ? "host" : job.programs.size() > 1 ? "part" : job.oversubscribe ? "slot" : "rankfile";
  switch (job.map_by) {
    case MapBy::slot:
      return "slot";
    case MapBy::host:
      return "host";
    case MapBy::ppr:
      return "ppr";
  }
  return "";
}

const char* numbering_of(const JobSpec& job) { return job.rank_by == RankBy::slot ? "slot" : "host"; }

const char* name_of(BindTo bind_to) {
  switch (bind_to) {
    case BindTo::none:
      return "none";
    case BindTo::core:
      return "core";
    case BindTo::l3cache:
      return "l3cache";
    case BindTo::numa:
      return "numa";
    case BindTo::socket:
      return "socket";
    case BindTo::automatic:
      return "auto";
  }
  return "";
}

std::string binding_rule(const JobSpec& job) {
  const auto cores =
      fmt::format("{} core{} of its own", std::max(job.cpus_per_rank, 1), job.cpus_per_rank > 1 ? "s" : "");
  const bool by_file = std::any_of(job.rank_file.begin(), job.rank_file.end(),
                                   [](const RankPlace& place) { return !place.cores.empty(); });
  if (by_file) return "each rank gets the cores of its line in the rank file";
  switch (job.bind_to) {
    case BindTo::none:
      return "none";
    case BindTo::automatic:
      return job.world_size() <= 2 ? "each rank gets a core of its own, where the host has so many"
                                   : "each rank gets a socket, where the host has a core for each";
    case BindTo::core:
      return fmt::format("each rank gets {}, ranks are spread over the host's NUMA nodes", cores);
    case BindTo::l3cache:
    case BindTo::numa:
    case BindTo::socket: {
      const auto* domain = job.bind_to == BindTo::numa      ? "NUMA node"
                           : job.bind_to == BindTo::l3cache ? "L3 cache"
                                                            : "socket";
      if (job.cpus_per_rank == 0)
        return fmt::format("each rank gets a{} {}, shared where ranks are more",
                           job.bind_to == BindTo::l3cache ? "n" : "", domain);
      return fmt::format("each rank gets {} inside one {}", cores, domain);
    }
  }
  return "";
}

const Host& host_of(const JobSpec& job, const core::Seat& seat) { return job.hosts.hosts[seat.host.value]; }

// Whose doors the ranks find, as far as their files here tell.
struct Doors {
  bool pmix = false, horovod = false;
};

core::WorldFacts placeholders(const JobSpec& job, const core::Placement& placement, const core::Seat& seat,
                              Doors doors) {
  const auto& first = host_of(job, placement.seats.front()).name;
  const auto& here = host_of(job, seat).name;
  const auto address = [&](const std::string& host) {
    if (!job.network_interface.empty())
      return fmt::format("<address of {} on {}>", job.network_interface, host);
    return job.inherit_all ? std::string("127.0.0.1") : fmt::format("<address of {}, found at start>", host);
  };
  const bool ours = job.torch_store == TorchStore::trainrun;
  return {.master_addr = ours ? std::string("127.0.0.1") : address(first),
          .master_port = ours                   ? fmt::format("<opened on {} at start>", here)
                         : job.master_port != 0 ? std::to_string(job.master_port)
                                                : fmt::format("<reserved on {} at start>", first),
          .rendezvous = fmt::format("<opened on {} at start>", here),
          .key_file = fmt::format("<private file on {}>", here),
          .error_file = fmt::format("<private file on {} for rank {}>", here, seat.rank.value),
          .address = address(here),
          .pmix_everywhere = doors.pmix,
          .agent_store = ours,
          .horovod_port = doors.horovod ? fmt::format("<opened on {} at start>", here) : std::string(),
          .gpus = core::visible_gpus(job, seat.slot)};
}

// What a rank gets beyond the job's environment; values shown as they may be.
Env own_env(const JobSpec& job, const core::Placement& placement, const core::Seat& seat, Doors doors) {
  Env env;
  const auto world = placeholders(job, placement, seat, doors);
  for (const auto& [name, value] : core::worker_env(job, placement, seat.rank, world, nullptr)) {
    env[name] = core::shown_value(name, value);
  }
  if (core::offers_pmix(job, world)) {  // of the helper there
    env["PMIX_RANK"] = std::to_string(seat.rank.value);
    env["PMIX_NAMESPACE"] = job.id + ".g1";
  }
  env["TRAINRUN_WORKER"] = "<number of the process in the job>";  // the agent gives it, and these
  for (const char* name : {"HOME", "LOGNAME", "SHELL", "USER"})
    if (!job.inherit_all && core::find_variable(job.env, name) == nullptr)
      env.emplace(name, "<of the login there>");
  return env;
}

std::map<std::uint32_t, std::vector<std::uint32_t>> ranks_by_host(const core::Placement& placement) {
  std::map<std::uint32_t, std::vector<std::uint32_t>> out;
  for (const auto& seat : placement.seats) out[seat.host.value].push_back(seat.rank.value);
  return out;
}

// A value must not be able to steer the terminal or to look like a line of ours.
std::string for_terminal(const std::string& value) {
  const bool plain = value.size() <= longest_shown && std::none_of(value.begin(), value.end(), [](char c) {
                       return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
                     });
  return plain ? value : quoted(value, longest_shown);
}

std::string command_line(const std::vector<std::string>& argv) {
  return for_terminal(core::shown_line(argv));
}

void print_wrapped(std::string& out, const Env& env, std::string_view indent) {
  std::size_t column = 0;
  for (const auto& [name, value] : env) {
    const auto word = fmt::format("{}={}", name, for_terminal(value));
    if (column > 0 && column + 2 + word.size() > line_width) {
      out += '\n';
      column = 0;
    }
    out += column == 0 ? indent : "  ";
    out += word;
    column += word.size() + 2;
  }
  if (column > 0) out += '\n';
}

std::string scheduling_rule(const JobSpec& job) {
  if (job.scheduling == Scheduling::batch) return "SCHED_BATCH";
  const bool python = std::any_of(job.programs.begin(), job.programs.end(), core::is_python);
  if (job.scheduling == Scheduling::normal || !python) return "normal";
  return "SCHED_BATCH for Python without a GPU, on a host with no more usable cores than ranks";
}

std::string preload_words(const JobSpec& job) {
  std::string words = job.preload.automatic ? "the installed packages that the script imports"
                                            : fmt::format("{}", fmt::join(job.preload.modules, ", "));
  words += ", imported once a host, by a process that ranks are forked from";
  for (const auto& program : job.programs)
    if (const auto why = core::not_preloaded(job, program); !why.empty())
      words += fmt::format("\n  not for {}: {}", for_terminal(program.argv.front()), why);
  return words;
}

void print_hosts(std::string& out, const JobSpec& job, const core::Placement& placement,
                 const RemoteCommand& remote_command) {
  const auto by_host = ranks_by_host(placement);
  out += fmt::format("{} rank{} on {} host{}, mapped by {}{}\n\nhosts\n", placement.seats.size(),
                     placement.seats.size() == 1 ? "" : "s", placement.groups,
                     placement.groups == 1 ? "" : "s", mapping_of(job),
                     job.rank_by == RankBy::mapping ? "" : fmt::format(", ranked by {}", numbering_of(job)));
  for (std::uint32_t i = 0; i < job.hosts.hosts.size(); ++i) {
    const auto& host = job.hosts.hosts[i];
    const auto ranks = by_host.find(i);
    out += fmt::format("  {}: {} slot{}, {}", host.name, host.slots, host.slots == 1 ? "" : "s",
                       ranks == by_host.end() ? "no rank"
                                              : fmt::format("rank{} {}", ranks->second.size() == 1 ? "" : "s",
                                                            as_ranges(ranks->second)));
    if (!host.user.empty()) out += fmt::format(", user {}", host.user);
    if (host.port != 0) out += fmt::format(", port {}", host.port);
    if (!host.identity.empty()) out += fmt::format(", key {}", for_terminal(host.identity));
    out += '\n';
    if (ranks == by_host.end()) continue;
    const auto command = remote_command(host);
    out += command.empty() ? "    started without a login\n" : fmt::format("    {}\n", for_terminal(command));
  }
}

std::string shown_source(const JobSpec& job) {
  return for_terminal(core::shown_command(job.elastic.discovery.source));
}

void print_unknown_hosts(std::string& out, const JobSpec& job) {
  out += fmt::format(
      "ranks are placed at the start, when the hosts are known\n\nhosts\n  {}: not asked by a dry run\n",
      discovery_words(job.elastic.discovery, shown_source(job)));
}

void print_ranks(std::string& out, const JobSpec& job, const core::Placement& placement, Doors doors) {
  std::vector<Env> own;
  for (const auto& seat : placement.seats) own.push_back(own_env(job, placement, seat, doors));
  Env common;
  for (const auto& [name, value] : own.front()) {
    const bool same = std::all_of(own.begin(), own.end(), [&, &key = name, &text = value](const Env& env) {
      const auto found = env.find(key);
      return found != env.end() && found->second == text;
    });
    if (same) common[name] = value;
  }

  for (const auto& seat : placement.seats) {
    const auto& program = job.programs[seat.program];
    out += fmt::format("  rank {} on {}, in {}: {}\n", seat.rank.value, host_of(job, seat).name,
                       for_terminal(program.directory), command_line(program.argv));
    auto env = own[seat.rank.value];
    std::erase_if(env, [&](const auto& var) { return common.contains(var.first); });
    print_wrapped(out, env, "    ");
  }
  out += "\nenvironment of every rank\n";
  print_wrapped(out, common, "  ");
}

}  // namespace

std::string dry_run_text(const JobSpec& given, const core::Placement& placement,
                         const RemoteCommand& remote_command, const ProgramsMpi& mpi) {
  auto job = given;
  job.id = "<new for each job>";
  std::string out;
  const bool known = !placement.seats.empty();
  if (known) {
    print_hosts(out, job, placement, remote_command);
  } else {
    print_unknown_hosts(out, job);
  }
  out += fmt::format("\nbinding: {}\n", binding_rule(job));
  if (const auto rule = scheduling_rule(job); rule != "normal") out += fmt::format("scheduling: {}\n", rule);
  out += mpi_text(job, placement, mpi);
  if (job.preload.wanted()) out += fmt::format("\npreload: {}\n", preload_words(job));
  if (job.elastic.enabled()) out += "\n" + elastic_text(job.elastic, shown_source(job));

  out += "\nranks\n";
  if (known) {
    print_ranks(out, job, placement, {has_pmix(mpi), has_horovod(job, mpi)});
  } else {
    for (const auto& program : job.programs) {
      out += fmt::format("  each in {}: {}\n", for_terminal(program.directory), command_line(program.argv));
    }
  }
  out += job.inherit_all ? "\nenvironment inherited from here, unless set above\n"
                         : "\nenvironment sent from here, unless set above\n";
  Env sent;
  for (const auto& [name, value] : job.env) sent[name] = core::shown_value(name, value);
  print_wrapped(out, sent, "  ");
  if (!job.not_forwarded.empty())
    out += fmt::format("\nnot forwarded: {} (add -x NAME{})\n", list_names(job.not_forwarded),
                       job.as_mpirun ? "" : " or --env all");
  return out;
}

std::string dry_run_json(const JobSpec& given, const core::Placement& placement,
                         const RemoteCommand& remote_command, const ProgramsMpi& mpi) {
  using Json = nlohmann::ordered_json;
  auto job = given;
  job.id = "<new for each job>";

  Json hosts = Json::array();
  const auto by_host = ranks_by_host(placement);
  for (std::uint32_t i = 0; i < job.hosts.hosts.size(); ++i) {
    const auto& host = job.hosts.hosts[i];
    const auto ranks = by_host.find(i);
    hosts.push_back({{"name", host.name},
                     {"slots", host.slots},
                     {"user", host.user},
                     {"port", host.port},
                     {"identity", host.identity},
                     {"ranks", ranks == by_host.end() ? std::vector<std::uint32_t>{} : ranks->second},
                     {"remote_command", ranks == by_host.end() ? std::string() : remote_command(host)}});
  }

  Env sent;
  for (const auto& [name, value] : job.env) sent[name] = core::shown_value(name, value);
  const Doors doors{has_pmix(mpi), has_horovod(job, mpi)};
  Json ranks = Json::array();
  for (const auto& seat : placement.seats) {
    const auto& program = job.programs[seat.program];
    auto env = sent;
    Json at_start = Json::array();
    for (const auto& [name, value] : own_env(job, placement, seat, doors)) {
      env[name] = value;
      if (value.starts_with('<') && !value.starts_with(core::redacted)) at_start.push_back(name);
    }
    ranks.push_back({{"rank", seat.rank.value},
                     {"local_rank", seat.local_rank},
                     {"local_size", seat.local_size},
                     {"group_rank", seat.group_rank},
                     {"cross_rank", seat.cross_rank},
                     {"cross_size", seat.cross_size},
                     {"host", host_of(job, seat).name},
                     {"program", seat.program},
                     {"argv", core::shown_words(program.argv)},
                     {"directory", program.directory},
                     {"env", env},
                     {"at_start", at_start}});
  }

  Json programs = Json::array();
  for (std::size_t i = 0; i < job.programs.size(); ++i) {
    const auto& program = job.programs[i];
    programs.push_back(
        {{"np", program.np}, {"argv", core::shown_words(program.argv)}, {"directory", program.directory}});
    if (i < mpi.size()) programs.back()["mpi"] = mpi_json(mpi[i]);
  }

  const Json all = {{"schema", dry_run_schema},
                    {"world_size", placement.seats.size()},
                    {"programs", programs},
                    {"hosts", hosts},
                    {"map_by", mapping_of(job)},
                    {"rank_by", job.rank_by == RankBy::mapping ? Json(nullptr) : Json(numbering_of(job))},
                    {"ranks_per_host", job.ppr},
                    {"oversubscribe", job.oversubscribe},
                    {"binding",
                     {{"bind_to", name_of(job.bind_to)},
                      {"cpus_per_rank", job.cpus_per_rank},
                      {"gpus_per_rank", job.gpus_per_rank},
                      {"rule", binding_rule(job)}}},
                    {"scheduling", scheduling_rule(job)},
                    {"preload", job.preload.automatic  ? Json("auto")
                                : job.preload.wanted() ? Json(job.preload.modules)
                                                       : Json(nullptr)},
                    {"elastic", elastic_json(job.elastic, shown_source(job))},
                    {"inherits", job.inherit_all},
                    {"not_forwarded", job.not_forwarded},
                    {"ranks", ranks}};
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace trainrun::cli
