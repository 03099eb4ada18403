// The launcher as a call: what `cli/main` starts once the command line is understood.
#pragma once

#include <string>
#include <vector>

#include "launcher/core/job_spec.h"

namespace trainrun {

// What only the process itself knows of where it runs.
struct Surroundings {
  std::vector<std::string> environment;          // NAME=VALUE each, for a discovery script
  std::vector<std::string> control_directories;  // where the socket of `trainrun ctl` may be made, best first
};

// Runs the job to its end and gives the exit code of the process. Prints workers' output, and on stderr
// whatever the user must know; `notes` are lines that the command line gave rise to ("running train.py with
// /usr/bin/python3").
int run_job(const JobSpec& job, const std::vector<std::string>& notes, Surroundings surroundings);

// --check-hosts: logs in everywhere, checks agent, programs, directory and binding, reports a line a host, or
// all as JSON, starts nothing.
int check_hosts(const JobSpec& job, bool json);

}  // namespace trainrun
