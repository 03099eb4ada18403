// What of a start can be decided on this host without starting anything: for --dry-run.
#pragma once

#include <functional>

#include "launcher/base/error.h"
#include "launcher/core/job_spec.h"
#include "launcher/core/placement.h"

namespace trainrun::cli {

// Whether this host has the cores, GPUs and the interface that its ranks are to get, and whether the
// directory of --output-filename can be made. Nothing is made. `is_here`
// tells hosts that need no login. Errors are those of a start.
Result<void> decide_here(const JobSpec& job, const core::Placement& placement,
                         const std::function<bool(const Host&)>& is_here);

}  // namespace trainrun::cli
