// A command line with several programs: which settings are the whole job's, and which a program's own. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/argv.h"
#include "launcher/base/error.h"

namespace trainrun::cli {

// Takes the settings of the whole job out of `parts`; what is left there is the part's own. They may stand
// before any program, and before several if they say the same; an Error names the parts that do not. -H alone
// may differ: then each part keeps its own, and the job has the hosts of all.
Result<std::vector<Setting>> take_common(std::vector<ArgvPart>& parts);

// A line for each reason why flags of the command line were left out.
std::vector<std::string> notes_on_needless(const std::vector<ArgvPart>& parts);

}  // namespace trainrun::cli
