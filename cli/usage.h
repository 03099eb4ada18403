// What --help and --version print. Made from the table of options.
#pragma once

#include <string>

namespace trainrun::cli {

std::string short_help();                // one screen: 24 lines of 80 columns
std::string long_help();                 // every option, grouped
std::string help_as_torchrun(bool all);  // one of these, below whose it is
std::string horovod_version_text();      // called as horovodrun: of whose command line is read
// Called by the name of another launcher, it says whose it is taken for where nothing else tells: Horovod and
// others look there for names of MPI libraries, for Open MPI's first.
// `called_as` is empty under our own name. With `open_mpi` it is Open MPI's mpirun that is asked.
std::string version_text(const std::string& called_as, bool open_mpi);

}  // namespace trainrun::cli
