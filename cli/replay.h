// `trainrun replay`: what a journal tells, decided again.
#pragma once

#include <string>
#include <vector>

namespace trainrun::cli {

// `words` are those after `replay`. Prints, and gives the exit code: 0, or that of the worst that was found
// in any of the files: a journal that cannot be read, before one of which this build decides otherwise.
int replay_main(const std::vector<std::string>& words);

}  // namespace trainrun::cli
