// The live line on a terminal, elsewhere a line a minute of silence: what the job does now. Pure.
#pragma once

#include <string>

#include "launcher/core/job_machine.h"

namespace trainrun::output {

// `elapsed`: since the start of the launcher; `grace`: between TERM and KILL; `now` is on the clock of the
// progress.
std::string status_line(const core::JobMachine::Progress& progress, Instant now, Duration elapsed,
                        Duration grace);

}  // namespace trainrun::output
