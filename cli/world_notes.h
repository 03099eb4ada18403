// What is said of the first world of a job before it starts. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/core/job_spec.h"
#include "launcher/core/placement.h"

namespace trainrun::cli {

// That it is smaller than asked; and of launchers that it would run as if they were programs (`trainrun -np 2
// torchrun train.py`): one a host is how people start them, several train side by side, each alone.
void note_first_world(const JobSpec& job, const core::Placement& placed, std::vector<std::string>& notes);

}  // namespace trainrun::cli
