// Whether a program is one of Horovod's, as far as its files tell: by what its Python imports, or
// what it is linked with.
#pragma once

#include <string>
#include <vector>

#include "launcher/wire/env_pairs.h"

namespace trainrun::agent {

// Of a command, started in `directory` with this environment: its program, its script, a module or code that
// Python is given, and what a shell's script or words run. Modules that lie beside the script or in
// PYTHONPATH are followed. Where its text only names Horovod, or a shell's script hides what it runs, it does
// if the interpreter has Horovod. False also where the Horovod that the interpreter has knows MPI alone: such
// ranks meet as MPI's do.
bool uses_horovod(const std::vector<std::string>& words, const std::string& directory,
                  const wire::EnvPairs& env);

// Extensions of a Horovod in this folder of packages that was built without Gloo; empty: there is none.
std::vector<std::string> horovods_of_mpi_alone(const std::string& packages);

}  // namespace trainrun::agent
