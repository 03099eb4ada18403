// The words of a program, as the workers get them. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/argv.h"
#include "cli/config.h"
#include "launcher/base/error.h"

namespace trainrun::cli {

// An absolute path: `path` itself, or under `directory`; `~/` is the caller's home.
std::string absolute_path(const std::string& path, const Inputs& inputs);

// argv of one part: `-m pkg` becomes python3 -m pkg, a `x.py` that cannot be executed by itself python3 x.py,
// each with a line in `notes`, for -v. Empty words if the part names no program. With `this_host_alone` a
// file that is missing here is no reason for python3.
Result<std::vector<std::string>> program_words(const ArgvPart& part, const std::string& directory,
                                               bool this_host_alone, const Inputs& inputs,
                                               std::vector<std::string>& notes);

// For a program that runs on this host: is it there? `path` is the PATH of the workers; empty: not known, so
// that only names with a slash are looked at.
Result<void> check_program(const Program& program, const std::string& path, const Inputs& inputs);

// The value of a variable, or nothing.
std::string variable(const std::vector<EnvVar>& environment, std::string_view name);

}  // namespace trainrun::cli
