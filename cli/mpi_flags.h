// The options of Open MPI's mpirun and of Hydra's mpiexec (MPICH, Intel MPI), and what becomes of each here:
// the one table of them. Pure data; mpi_line.h reads it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "cli/command_line.h"
#include "cli/options.h"

namespace trainrun::cli {

// Whose command line this is, where the two disagree.
enum class Ways : std::uint8_t { open_mpi, hydra };
// Whose option it is. Where both have one of this name that means two things there is a row for each.
enum class Whose : std::uint8_t { both, open_mpi, hydra };

enum class Fate : std::uint8_t {
  works,     // `option` gets `value`, or the one that was given
  reads,     // as works, the value being translated by `how`
  needless,  // changes nothing here; `why`
  refused,   // `why`, and what to write instead
};

// What a value is translated by.
enum class How : std::uint8_t {
  none,
  ranks,         // their number; Open MPI's 0 is as many as there are slots
  bind_to,       // --bind-to WHAT[:QUALIFIERS]
  map_by,        // --map-by WHAT[:QUALIFIERS]
  rank_by,       // --rank-by WHAT[:QUALIFIERS]
  ppr,           // N:node, N:socket, ...
  per_socket,    // N
  parameter,     // NAME VALUE for the environment, `value` before the name
  variable,      // NAME VALUE for one program
  variables,     // NAME,NAME,... for one program
  all_variable,  // the same for all programs
  all_variables,
  no_variables,     // nothing of the environment here but PATH
  prefix,           // a directory with bin and lib
  cpus,             // cores of a rank, which are bound
  directory,        // what stands before a ':'
  starter,          // Hydra's -launcher
  batch_system,     // Hydra's -rmk
  fault_tolerance,  // Open MPI 5's --with-ft ulfm
  gpus,             // GPUs of a rank; "auto" is all
  label,            // Hydra's -prepend-pattern
  output,           // Open MPI 5's --output tag,timestamp,dir=DIR
  display,          // Open MPI 5's --display map,bind,allocation
  runtime,          // Open MPI 5's --runtime-options
  time_limit,       // in seconds; 0 is none
  programs,         // a file that holds them; it is read before all others
  show_hosts,       // before the start
  show_ranks,
  granted,  // it is so without it, and nobody needs to hear that
};

struct MpiFlag {
  std::vector<std::string_view> names;  // the first is that of messages
  Whose whose;
  Takes takes;
  Fate fate;
  Option option = Option::help;  // of works
  std::string_view value{};      // of works: that one instead of what was given
  How how = How::none;           // of reads
  std::string_view why{};        // of needless and refused
};
std::span<const MpiFlag> mpi_flags();

// What holds under these ways where nothing else is said: the weakest layer of settings.
struct MpiDefault {
  Ways ways;
  Option option;
  std::string_view value;
};
std::span<const MpiDefault> mpi_defaults();

// Where the two launchers mean different things by the same words; of --help and the manual.
struct MpiConflict {
  std::string_view what, open_mpi, hydra;
};
std::span<const MpiConflict> mpi_conflicts();

}  // namespace trainrun::cli
