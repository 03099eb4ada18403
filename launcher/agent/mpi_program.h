// Whose MPI a program is linked with, as far as its files tell: that decides which door it is shown.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/wire/messages.h"

namespace trainrun::agent {

enum class MpiFamily : std::uint8_t {
  none,     // or one that runs others which its files do not tell: a script
  mpich,    // and Intel MPI and MVAPICH, which speak PMI-1 as it does
  open_mpi  // or anything else that is linked with libpmix
};

struct MpiProgram {
  MpiFamily family = MpiFamily::none;
  std::string what;  // the file by which it was recognised
  // By mpi4py beside the Python, or a program that is named in its words or its text: they need not be run.
  bool guessed = false;
  std::vector<std::string> libraries;  // directories in which its libmpi looks for others
};

// What a name of a library tells: "libmpi.so.40", "libmpich.so.12".
MpiFamily family_of_library(const std::string& name);

// Of a command, started in `directory` with this environment: the program, and what else is named in its
// words (a program that a tool like numactl starts, what a shell is given with -c), or by a shell's script.
MpiProgram recognise(const std::vector<std::string>& words, const std::string& directory,
                     const wire::EnvPairs& env);

// Which libpmix would serve such a program, best first, each a path, or a name that the loader is to find.
// Empty: there is none on this host.
std::vector<std::string> pmix_libraries(const MpiProgram& program, const wire::EnvPairs& env);

}  // namespace trainrun::agent
