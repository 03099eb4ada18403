// Whose command line was given: trainrun's own, mpirun's and mpiexec's (mpi_line.h), or horovodrun's
// (horovod_line.h, horovod_signs.h). --compat-cli says it, or TRAINRUN_COMPAT_CLI, else the name that
// trainrun is called by, else an option, or a value of one, that only horovodrun or mpirun has, or a program
// of Horovod's behind options that horovodrun has, all of them: an alias leaves no name. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/config.h"
#include "cli/mpi_flags.h"
#include "launcher/base/error.h"

namespace trainrun::cli {

struct ForeignLine {
  std::optional<Ways> ways{};      // nothing: the line has to tell
  bool horovod = false;            // it is no line of MPI, but horovodrun's
  bool by_name = true;             // not by a flag that only it has
  std::vector<std::string> words;  // what follows --compat-cli
};

// Nothing: this is trainrun's own command line.
Result<std::optional<ForeignLine>> foreign_line(const Inputs& inputs);

}  // namespace trainrun::cli
