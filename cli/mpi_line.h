// A command line of mpirun or mpiexec, read as ours. Whose it is, where they disagree, is known by the name
// that trainrun is called by or --compat-cli, else by flags that only one of them has, else by the program's
// MPI, else by the name again. Pure; the options are in mpi_flags.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/argv.h"
#include "cli/config.h"
#include "cli/mpi_flags.h"
#include "cli/whose_line.h"
#include "launcher/base/error.h"

namespace trainrun::cli {

struct MpiLine {
  Ways ways = Ways::open_mpi;
  std::vector<ArgvPart> parts{};
  std::vector<Setting> environment{};  // variables of mpirun and mpiexec: the layer above the weakest
  std::vector<Setting> defaults{};     // the weakest layer
  std::vector<std::string> notes{};    // of values that mean something else here
  bool show_hosts = false, show_ranks = false;
  bool names_agent = false;           // the remote shell
  std::optional<Error> not_by_ssh{};  // what ends a job that reaches a host by it
};
Result<MpiLine> read_mpi_line(const ForeignLine& call, const Inputs& inputs);

// The flags of both, then those of ours that have another name.
const CommandLine& mpi_line();

// What --help answers.
std::string mpi_help();

}  // namespace trainrun::cli
