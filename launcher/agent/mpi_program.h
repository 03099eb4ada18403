// Whose MPI a program is linked with, as far as its files tell: that decides which door it is shown.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/wire/messages.h"

namespace trainrun::agent {

using wire::MpiFamily;

struct MpiProgram {
  MpiFamily family = MpiFamily::none;
  std::string what;  // the file by which it was recognised
  // By mpi4py beside the Python, a program that is named in its words or its text, or a library that others
  // use as well: none of them need be run.
  bool guessed = false;
  bool interpreter = false;              // it, or a library of its own, may load an MPI, or run what has one
  bool hidden = false;                   // a shell's script alone knows what it runs
  std::vector<std::string> libraries{};  // directories in which its libmpi looks for others
  std::string missing{};  // its libmpi, and why it cannot be loaded; nothing where that is not known
};

// What a name of a library tells: "libmpi.so.40", "libmpich.so.12".
MpiFamily family_of_library(const std::string& name);

// Of a command, started in `directory` with this environment: the program, and what else is named in its
// words (a program that a tool like numactl starts, what a shell is given with -c), or by a shell's script.
// What another launcher is given is none of ours.
MpiProgram recognise(const std::vector<std::string>& words, const std::string& directory,
                     const wire::EnvPairs& env);

// Which libpmix would serve such a program, best first. Empty: there is none on this host.
std::vector<std::string> pmix_libraries(const MpiProgram& program, const wire::EnvPairs& env);

// The directory into which this Open MPI was put, with its texts and settings beside its libraries: it may be
// another one than that for which it was built, as a package of PyPI. Empty: it is not known.
std::string open_mpi_prefix(const MpiProgram& program);

// Whether it looks like a library for this kind of machine.
bool is_library(const std::string& path);

}  // namespace trainrun::agent
