// Which file an interpreter is asked to run. A host that lacks it is told before anything starts; the
// interpreter itself would fail on every rank, with an exit code that says something else.
#pragma once

#include <string>
#include <vector>

namespace trainrun::core {

// The script of `python3 train.py ...`, as typed; empty for other programs, and where Python's own options
// (-m, -c, -u, ...) come before it.
std::string script_of(const std::vector<std::string>& argv);

}  // namespace trainrun::core
