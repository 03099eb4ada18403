// What mpirun and mpiexec are told without an option: parameters of Open MPI's own launcher (--mca,
// OMPI_MCA_*, PRTE_MCA_*) and variables of Hydra. Each is obeyed as the option that means the same. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/config.h"
#include "cli/mpi_flags.h"
#include "cli/mpi_values.h"
#include "launcher/base/error.h"

namespace trainrun::cli {

// The option that says the same as a parameter; nullptr: there is none.
const MpiFlag* row_of_parameter(std::string_view name);

// `value` as that of the option, which is a word of yes or no where the option takes none.
Result<Meant> meant_as_parameter(const MpiFlag& row, const std::string& spelled, const std::string& value,
                                 Ways ways, const std::vector<EnvVar>& environment);

// Those of the environment: a layer of settings beneath all that are our own. What cannot be obeyed has a
// note, since it may be a site's and not this user's. `names_agent`: the line names the remote shell.
Meant read_mpi_environment(Ways ways, const Inputs& inputs, bool names_agent);

// plm_rsh_agent and plm_rsh_args: what cannot be had is told in not_by_ssh.
Meant meant_of_ssh(std::string_view parameter, const std::string& value, const std::string& spelled);

}  // namespace trainrun::cli
