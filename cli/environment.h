// TRAINRUN_* variables as settings. Pure: the environment is handed in.
#pragma once

#include <string>
#include <vector>

#include "cli/argv.h"
#include "launcher/core/job_spec.h"

namespace trainrun::cli {

struct EnvironmentLayer {
  std::vector<Setting> settings;
  std::vector<std::string> notes;  // a TRAINRUN_ variable that is none
};

// Variables that a surrounding job gave to its workers and scripts (TRAINRUN_RANK, TRAINRUN_JOB_ID...) are no
// settings and are not spoken of, and an empty value is none. TRAINRUN_EXPORT is a comma list of names; the
// others are written as on the command line.
EnvironmentLayer read_environment(const std::vector<EnvVar>& environment);

}  // namespace trainrun::cli
