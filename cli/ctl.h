// `trainrun ctl`: finds the launcher that is meant, asks it, and makes its answer readable.
#pragma once

#include <string>
#include <vector>

#include "launcher/base/exit_code.h"
#include "launcher/core/job_spec.h"

namespace trainrun::cli {

struct CtlAnswer {
  std::string text;  // for stdout
  ExitCode code = ExitCode::success;
  std::vector<std::string> complaint{};  // lines for stderr
};

// Where launchers of this user may have put their sockets; from XDG_RUNTIME_DIR, if the environment has it.
std::vector<std::string> ctl_places(const std::vector<EnvVar>& environment);

// `words` are those after `ctl`. An Error's code: usage, unreachable (no such job, or it does not answer), or
// what the launcher said. With --json a refusal is no error here but the launcher's own line, with the exit
// code that belongs to it. Several jobs of which --job names none are an answer with the code of usage: the
// list of them.
Result<CtlAnswer> ctl_answer(const std::vector<std::string>& words, const std::vector<std::string>& places);

}  // namespace trainrun::cli
