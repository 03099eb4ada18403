// Which programs of a job can be forked from a process that has imported what they need (--preload), and what
// the hosts are told of them. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/core/job_spec.h"
#include "launcher/wire/messages.h"

namespace trainrun::core {

// A command line that runs Python: `[env NAME=VALUE...] python3 [flags] script | -m module | -c code`.
struct PythonCommand {
  std::size_t interpreter = 0;  // its place
  std::size_t command = 0;      // where the script, -m or -c stands
  std::string refused{};        // not empty: it is no such line, and why, with what to write instead
};
PythonCommand python_command(const std::vector<std::string>& argv);

// Why --preload does nothing for this program; empty if it does, or was not asked for.
std::string not_preloaded(const JobSpec& job, const Program& program);

// A line for each such program.
std::vector<std::string> started_plainly(const JobSpec& job);

// Empty if no program is preloaded.
wire::Preload preload_of(const JobSpec& job);

}  // namespace trainrun::core
