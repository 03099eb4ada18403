// What stands between a command line and the code that runs: an interpreter and its script, a `#!` line,
// `env`. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainrun::core {

// The script of `python3 train.py ...`, as typed; empty for other programs, and where Python's own options
// (-m, -c, -u, ...) come before it. A host that lacks it is told before anything starts; the interpreter
// itself would fail on every rank, with an exit code that says something else.
std::string script_of(const std::vector<std::string>& argv);

// The place of the program in `env NAME=VALUE ... program ...`, with or without variables; 0 where env is not
// what runs, or has options (-i, -u, -S): then only env itself knows.
std::size_t program_of_env(const std::vector<std::string>& argv);

// The launcher that a command line starts, which starts ranks by itself: "torchrun", "accelerate",
// "torch.distributed.run" (of `python3 -m`), ...; empty: another program.
std::string launcher_of(const std::vector<std::string>& argv);

// The words that a script's first line puts before the script: {"/bin/sh", "-e"}. `#!/usr/bin/env python3`
// gives {"python3"}, a name that is yet to be looked up, and `env -S` its words, as long as they are plain
// ones; any other use of env is {"/usr/bin/env"}. Empty: no `#!` line, or one that no kernel takes.
std::vector<std::string> interpreter_of(std::string_view first_line);

}  // namespace trainrun::core
