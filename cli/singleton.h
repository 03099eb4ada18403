// An MPI program that was started by itself, and wants to spawn others or to know the size of the universe,
// starts `mpiexec -pmi_args PORT INTERFACE KEY PID` and waits at that port for as long as nobody connects.
#pragma once

#include <string>
#include <vector>

namespace trainrun::cli {

// If these are the words of such a program, ends its waiting: it goes on to say that it got no answer. The
// words themselves are refused as any unknown flag is.
void release_singleton(const std::vector<std::string>& words);

}  // namespace trainrun::cli
