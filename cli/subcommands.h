// The command lines of the subcommands, and their help. What a job's own line may hold is in options.h.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.h"

namespace trainrun::cli {

// `trainrun ctl VERB [ARGUMENT]`
struct Verb {
  std::string_view name, argument, help;  // argument: "HOST", "[RANK]" when it may be left out
};
std::span<const Verb> ctl_verbs();

const CommandLine& ctl_line();
const CommandLine& rendezvous_line();
const CommandLine& replay_line();
const CommandLine& completion_line();
const CommandLine& comm_info_line();

std::string ctl_help();
std::string rendezvous_help();
std::string replay_help();
std::string completion_help();
std::string comm_info_help();

// What may follow the subcommand's name, for completion: "world add ... --job --json".
struct Subcommand {
  std::string_view name;
  std::vector<std::string> words;
  bool files = false;  // and names of files
};
const std::vector<Subcommand>& subcommands();

}  // namespace trainrun::cli
