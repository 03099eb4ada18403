// By what a line shows that it is mpirun's or mpiexec's, when trainrun is called by its own name. Pure.
#pragma once

#include <string>
#include <vector>

namespace trainrun::cli {

// Whether an option that only mpirun or mpiexec has, by a name of more than a letter, stands before the
// program.
bool has_option_of_mpirun(const std::vector<std::string>& words);

}  // namespace trainrun::cli
