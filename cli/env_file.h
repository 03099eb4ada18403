// `--env-file`: lines NAME=VALUE. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "launcher/base/error.h"
#include "launcher/core/job_spec.h"

namespace trainrun::cli {

// Blank lines and lines that begin with # are skipped; a leading `export ` is allowed; one pair of quotes
// around the whole value is taken off; nothing else is interpreted. The last line wins for a name. Errors say
// `path:line`.
Result<std::vector<EnvVar>> read_env_file(std::string_view content, std::string_view path);

}  // namespace trainrun::cli
