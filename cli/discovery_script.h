// Looks at the command of a host discovery before anything starts. What can never answer (a name that is
// nowhere, a file that cannot be executed) is an error; a script that is there and fails is asked again
// while the job runs. Pure.
#pragma once

#include <string>

#include "cli/config.h"
#include "launcher/base/error.h"

namespace trainrun::cli {

// `flag` as the user wrote it. Only the first command is looked at, and only where it is plain words: what
// /bin/sh makes of anything else is its own affair.
Result<void> check_discovery_script(const std::string& flag, const std::string& command,
                                    const Inputs& inputs);

}  // namespace trainrun::cli
