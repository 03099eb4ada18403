// Values of mpirun's and mpiexec's options, which are words of their own. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/argv.h"
#include "cli/mpi_flags.h"
#include "launcher/base/error.h"
#include "launcher/core/job_spec.h"

namespace trainrun::cli {

struct Meant {
  std::vector<Setting> settings{};
  std::vector<Setting> defaults{};  // which any flag of the same meaning replaces
  std::vector<std::string> notes{};
  std::string prefix{};  // with whose bin and lib the lists of folders of all programs begin
  bool for_all = false;  // of several programs
  bool yields = false;   // to a flag of the same meaning
  bool show_hosts = false, show_ranks = false;  // before the start
  bool names_agent = false;                     // the remote shell
  std::optional<Error> not_by_ssh{};            // where a host is reached by it
};

// What `row.how` makes of `value`, which was given by `spelled`. An Error says what to write instead.
Result<Meant> meant_by(const MpiFlag& row, const std::string& spelled, const std::string& value, Ways ways,
                       const std::vector<EnvVar>& environment);

}  // namespace trainrun::cli
