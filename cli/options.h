// THE table of options. Parsing, help, TOML, environment, completions and the check of the man page all read
// it, so that an option is described in one place.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.h"

namespace trainrun::cli {

// The order is that of the table, of the help and of --print-config.
enum class Option : std::uint8_t {
  np,
  host,
  hostfile,
  hosts_from,
  slots_per_host,
  ppn,
  map_by,
  rank_by,
  rankfile,
  nolocal,
  oversubscribe,
  bind_to,
  report_bindings,
  cpus_per_rank,
  gpus_per_rank,
  sched,
  compat,
  pmix_lib,
  compat_cli,
  torch_store,
  backend,
  role,
  rdzv_id,
  virtual_local_rank,
  wdir,
  resolve,
  module,
  preload,
  export_name,
  env,
  env_file,
  tag,
  timestamp,
  pty,
  output_filename,
  events,
  journal,
  only_rank,
  local_ranks_filter,
  redirects,
  stdin_to,
  quiet,
  verbose,
  timeout,
  start_timeout,
  grace,
  host_timeout,
  min_np,
  max_np,
  nnodes,
  host_discovery_script,
  discover,
  discovery_interval,
  on_failure,
  reset_limit,
  max_restarts,
  blacklist_cooldown_range,
  spares,
  elastic_timeout,
  hang_timeout,
  settle,
  leave_signal,
  transport,
  ssh_port,
  ssh_identity_file,
  ssh_accept_new,
  ssh_config,
  agent_dir,
  network_interface,
  master_port,
  port_range,
  config,
  print_config,
  dry_run,
  json,
  check_hosts,
  version,
  help,
  print_options,
};

enum class Group : std::uint8_t { ranks, placement, program, output, time, elastic, ssh, network, actions };

enum class Type : std::uint8_t {
  flag,         // no value on the command line; true or false elsewhere
  count,        // -v, -vv: how often it is there; a number elsewhere
  integer,      // min..max
  per_host,     // the same, or gpu, cpu, auto
  duration,     // parse_duration; min and max are seconds
  choice,       // one of `choices`
  text,         // as it is
  path,         // a file or directory of this machine, relative to the caller's directory
  sink,         // a path, or fd:N
  hosts,        // a host list; several add up
  map_by,       // slot, host, ppr:N:PART
  ranks,        // 0,2-3
  stdin_to,     // RANK, all, none
  export_name,  // NAME or NAME=VALUE; several add up
  port_range,   // A-B
  host_range,   // N or MIN:MAX
  discovery,    // script:CMD, file:PATH, dns:NAME, slurm
  restarts,     // N or N/TIME
  time_range,   // MIN MAX, two words of the command line
  signal,       // TERM, USR1, ...
  topic,        // of --help: nothing, or "all"
};

struct OptionInfo {
  Option option;
  std::string_view name;                  // canonical, "--grace"
  std::vector<std::string_view> aliases;  // "-np", "--num-proc"
  std::string_view toml;                  // "limits.grace"; empty: not in a file
  Type type;
  std::string_view value_name;    // "SECONDS" in the help; empty for flags
  std::string_view default_text;  // as the help says it; empty: none
  Group group;
  std::string_view help;                    // one line
  std::vector<std::string_view> choices{};  // for Type::choice, and for completion of others
  std::uint64_t min = 0, max = 0;           // for Type::integer and Type::duration
  bool hidden = false;                      // not in help, man page and completions
  bool common = false;                      // in the short help

  [[nodiscard]] Takes takes() const;
  [[nodiscard]] bool takes_value() const { return takes() == Takes::a_value || takes_two_words(); }
  [[nodiscard]] bool takes_two_words() const { return takes() == Takes::two_values; }
  // Of several programs each has its own.
  [[nodiscard]] bool per_part() const {
    return option == Option::np || option == Option::wdir || option == Option::module ||
           option == Option::export_name;
  }
  // "TRAINRUN_SSH_PORT"; empty when it cannot be given in the environment.
  [[nodiscard]] std::string environment() const;
};

std::span<const OptionInfo> options();
const OptionInfo& info(Option option);
std::string_view group_title(Group group);

// The command line of a job as parse.h reads it: the table, and what is left out of other launchers' flags.
const CommandLine& job_line();
std::optional<Option> option_of(const Flag& flag);  // of job_line(); nothing for those that are left out

// By any spelling: one dash or two, `_` for `-`. Nothing when there is no such option.
const OptionInfo* find_option(std::string_view spelled);

// "did you mean --grace?" for a flag that does not exist, or what to do about a flag of another launcher.
std::string hint_for_unknown_flag(std::string_view spelled);

// One line an option, for the check of the man page: NAME ALIASES ENVIRONMENT TOML DEFAULT, tab-separated.
std::string print_options();

}  // namespace trainrun::cli
