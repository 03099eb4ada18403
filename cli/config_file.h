// `--config FILE.toml` as settings. The only file that knows toml++; pure, the content is handed in.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/argv.h"
#include "launcher/base/error.h"

namespace trainrun::cli {

struct ConfigFile {
  std::vector<Setting> settings;   // origins are "job.toml:3:9"; [env] gives settings of --export
  std::vector<ArgvPart> programs;  // `command`, `module` or [[program]]; empty when it names none
  std::string programs_origin;     // where the first of them stands
};

// Errors say `path:line:column`. Keys that do not exist and values of a wrong type are errors.
Result<ConfigFile> read_config_file(std::string_view content, std::string_view path);

}  // namespace trainrun::cli
