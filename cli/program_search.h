// Which file a program's name means, decided once, on the launcher's host, so that all hosts run the same
// one: a virtual environment that is active here and absent elsewhere is an error before the start, not
// another Python in silence. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/config.h"
#include "launcher/core/job_spec.h"

namespace trainrun::cli {

// `path`, or what it is under `directory`.
std::string path_under(const std::string& directory, std::string_view path);

// Where execvp would find a name without a slash; empty if nowhere.
std::string search_path(const std::string& name, const std::string& path, const std::string& directory,
                        const Inputs& inputs);

// The PATH of a program's workers; empty if they have none.
std::string path_of_workers(const JobSpec& job, const Program& program);

// Names that are looked up in PATH become paths in the argv of each program, and each is noted in `found`:
// argv[0], what `env`, nice, timeout and their like run, what a script's `#!/usr/bin/env NAME` runs (then
// NAME's path and the script stand in argv, as the kernel and env would make it). One level: the script of a
// script is its own affair. A name that is not found here stays a name, which each host looks up. With -v
// `notes` get a line for each name.
void search_programs(JobSpec& job, const Inputs& inputs, std::vector<std::string>& notes);

// A line for each program or script that is not on this host: only its hosts know whether they have it.
std::vector<std::string> notes_on_absent(const JobSpec& job, const Inputs& inputs);

}  // namespace trainrun::cli
