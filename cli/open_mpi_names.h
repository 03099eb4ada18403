// Whether a program reads the variables of Open MPI's mpirun. Pure.
#pragma once

#include <vector>

#include "cli/config.h"
#include "launcher/core/job_spec.h"

namespace trainrun::cli {

// A script of a shell or of Python whose text names OMPI_COMM_WORLD_RANK or another of them, as a script that
// chooses a GPU for its rank does, or a command for `sh -c` that does. Only files of this host are looked at.
bool names_open_mpi(const std::vector<Program>& programs, const Inputs& inputs);

}  // namespace trainrun::cli
