// What Open MPI's parameters plm_rsh_agent and plm_rsh_args say of ssh, as settings of ours. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/argv.h"
#include "launcher/base/error.h"

namespace trainrun::cli {

bool is_about_remote_shell(std::string_view parameter);
bool is_remote_shell(std::string_view parameter);  // it names the program

// `spelled` is how the user named the parameter. The Error tells what cannot be had; it matters only where a
// host is reached by ssh.
Result<std::vector<Setting>> read_remote_shell(std::string_view parameter, const std::string& value,
                                               const std::string& spelled);

}  // namespace trainrun::cli
