// Files that hold the programs of a line: Open MPI's --app, Hydra's -configfile. Each line is what stands
// between two ':' of a command line. Pure.
#pragma once

#include <vector>

#include "cli/argv.h"
#include "cli/config.h"
#include "launcher/base/error.h"

namespace trainrun::cli {

// `parts` of mpi_line(), where each that names such a file is replaced by the parts of the file; its other
// flags go to the first of these.
Result<std::vector<GivenPart>> with_files(std::vector<GivenPart> parts, const Inputs& inputs);

}  // namespace trainrun::cli
