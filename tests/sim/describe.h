// Events and actions as one line each, for a trace.
#pragma once

#include <string>

#include "launcher/core/job_action.h"

namespace trainrun::sim {

std::string describe(const core::JobEvent& event);
std::string describe(const core::JobAction& action);
std::string name_of(core::Outcome::Kind kind);

}  // namespace trainrun::sim
