#include "cli/allocation.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "cli/program.h"
#include "host-discovery/batch.h"
#include "host-discovery/host_grammar.h"
#include "host-discovery/host_key.h"
#include "host-discovery/slurm.h"
#include "launcher/base/strings.h"

namespace trainrun::cli {

namespace {

using Hosts = Result<std::vector<Host>>;

// Where one system says that a job is here, and where its hosts are.
struct System {
  std::string_view flag, name, job;
  std::string_view mark;  // must be set too, where another program may have a variable of that name
  std::string_view list;
  bool is_file;  // the variable names one
  Hosts (*read)(std::string_view text, std::string_view where);
  std::string_view start;  // how a job is started
};

constexpr System systems[] = {
    {"pbs", "PBS", "PBS_JOBID", "PBS_JOBID", "PBS_NODEFILE", true, hosts::hosts_by_line, "qsub"},
    {"lsf", "LSF", "LSB_JOBID", "LSB_JOBID", "LSB_MCPU_HOSTS", false, hosts::hosts_by_pair, "bsub"},
    {"lsf", "LSF", "LSB_JOBID", "LSB_JOBID", "LSB_DJOB_HOSTFILE", true, hosts::hosts_by_line, "bsub"},
    {"lsf", "LSF", "LSB_JOBID", "LSB_JOBID", "LSB_HOSTS", false, hosts::hosts_by_word, "bsub"},
    {"sge", "Grid Engine", "JOB_ID", "SGE_ROOT", "PE_HOSTFILE", true, hosts::hosts_of_grid_engine,
     "qsub -pe"},
};

constexpr std::string_view name_them =
    "name the hosts with -H, or use this host alone with --hosts-from none";

Result<Allocation> slurm(const Inputs& inputs) {
  auto hosts = hosts::slurm_hosts([&](std::string_view name) -> std::optional<std::string> {
    for (const auto& [key, value] : inputs.environment) {
      if (key == name) return value;
    }
    return std::nullopt;
  });
  if (!hosts) return tl::unexpected(hosts.error());
  if (hosts->empty()) return Allocation{};
  return Allocation{"Slurm", "SLURM_JOB_NODELIST", std::move(*hosts)};
}

Result<Allocation> read(const System& system, const Inputs& inputs) {
  const auto value = variable(inputs.environment, system.list);
  if (value.empty() || variable(inputs.environment, system.job).empty()) return Allocation{};
  std::string text = value;
  if (system.is_file) {
    auto content = inputs.read_file(absolute_path(value, inputs));
    if (!content) {
      return fail(Code::config,
                  fmt::format("inside a job of {}, whose hosts are in {}: {}", system.name, system.list,
                              content.error().message),
                  std::string(name_them));
    }
    text = std::move(*content);
  }
  auto hosts = system.read(text, system.list);
  if (!hosts && hosts.error().hint.empty()) hosts.error().hint = std::string(name_them);
  if (!hosts) return tl::unexpected(hosts.error());
  return Allocation{std::string(system.name), std::string(system.list), std::move(*hosts)};
}

// What `su -`, sudo or a login to the node leaves of a job's environment.
std::optional<std::string> note_on_lost_job(const std::vector<EnvVar>& environment) {
  for (const auto& system : systems) {
    if (variable(environment, system.list).empty()) continue;
    const auto missing = variable(environment, system.job).empty() ? system.job : system.mark;
    return fmt::format(
        "{} is set, but {} is not, as outside a job of {}: the job runs on this host alone; name others with "
        "-H or --hostfile, or say --hosts-from none",
        system.list, missing, system.name);
  }
  return std::nullopt;
}

}  // namespace

Result<void> check_started_once(const std::vector<EnvVar>& environment) {
  const auto tasks = parse_unsigned<std::uint32_t>(variable(environment, "SLURM_STEP_NUM_TASKS")).value_or(1);
  if (tasks <= 1 || variable(environment, "SLURM_PROCID").empty()) return {};
  return fail(
      Code::usage,
      fmt::format(
          "srun has started trainrun {} times (SLURM_STEP_NUM_TASKS), and each would start the whole job",
          tasks),
      "leave srun out: trainrun starts the ranks itself, on all hosts of the allocation; in a shell of srun "
      "--pty: "
      "unset SLURM_STEP_NUM_TASKS");
}

Result<Allocation> read_allocation(std::string_view wanted, const Inputs& inputs,
                                   const hosts::IsThisMachine& is_here) {
  if (wanted.empty() || wanted == "slurm") {
    auto found = slurm(inputs);
    if (!found || !found->hosts.empty()) return found;
    if (wanted == "slurm") {
      return fail(Code::config, "this is not inside a Slurm job (SLURM_JOB_ID is not set)",
                  "start it with sbatch or salloc, or name the hosts with -H");
    }
  }
  const System* last = nullptr;
  for (const auto& system : systems) {
    if (!wanted.empty() && wanted != system.flag) continue;
    last = &system;
    auto found = read(system, inputs);
    if (!found) return found;
    if (found->hosts.empty()) continue;
    const bool one_place = found->hosts.size() == 1 && found->hosts[0].slots == 1 && is_here(found->hosts[0]);
    return wanted.empty() && one_place ? Allocation{} : std::move(*found);
  }
  if (wanted.empty()) return Allocation{};
  return fail(
      Code::config,
      fmt::format("this is not inside a job of {} ({} or {} is not set)", last->name, last->job, last->list),
      fmt::format("start it with {}, or name the hosts with -H", last->start));
}

std::optional<std::string> note_on_hosts_outside(const std::vector<Host>& named, const std::string& origin,
                                                 const Inputs& inputs, const hosts::IsThisMachine& is_here) {
  const auto given = slurm(inputs);
  if (!given || given->hosts.empty()) return std::nullopt;
  // Slurm's names are often the first part of those in the DNS, and an address says nothing.
  const auto first_part = [](const Host& host) {
    const auto key = hosts::name_key(host.name);
    return key.substr(0, key.find('.'));
  };
  std::set<std::string> own;
  for (const auto& host : given->hosts) own.insert(first_part(host));
  std::vector<std::string> outside;
  for (const auto& host : named) {
    const bool address = hosts::is_ipv4(host.name) || hosts::is_ipv6(host.name);
    if (!address && !own.contains(first_part(host)) && !is_here(host)) outside.push_back(host.name);
  }
  if (outside.empty()) return std::nullopt;
  return fmt::format(
      "{}: {} {} not in the allocation of this Slurm job ({}); --hosts-from none if that is meant", origin,
      list_names(outside), outside.size() == 1 ? "is" : "are", given->origin);
}

std::optional<std::string> note_on_lost_list(const std::vector<EnvVar>& environment) {
  std::string lists;
  const System* in = nullptr;
  for (const auto& system : systems) {
    if (variable(environment, system.job).empty() || variable(environment, system.mark).empty()) continue;
    if (in != nullptr && in->flag != system.flag) break;
    if (!variable(environment, system.list).empty()) return std::nullopt;
    lists += (in == nullptr ? "" : " or ") + std::string(system.list);
    in = &system;
  }
  if (in == nullptr) return note_on_lost_job(environment);
  return fmt::format(
      "inside a job of {} ({}), but {} is not set: the job runs on this host alone; name others with -H or "
      "--hostfile, or say --hosts-from none",
      in->name, in->job, lists);
}

int slurm_threads(const std::vector<EnvVar>& environment, int ranks_of_task) {
  if (variable(environment, "SLURM_JOB_ID").empty() && variable(environment, "SLURM_JOBID").empty()) return 0;
  const int cpus = parse_unsigned<std::uint16_t>(variable(environment, "SLURM_CPUS_PER_TASK")).value_or(0);
  const auto tasks = variable(environment, "SLURM_TASKS_PER_NODE");
  const bool one_task =
      tasks == "1" || (tasks.starts_with("1(x") && tasks.ends_with(')') && tasks.find(',') == tasks.npos);
  return one_task && cpus > 0 ? std::max(1, cpus / ranks_of_task) : cpus;
}

}  // namespace trainrun::cli
