// What a host lacks for its ranks, in words with a cure. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/base/error.h"
#include "launcher/core/job_spec.h"
#include "launcher/wire/messages.h"

namespace trainrun {

// `problems`, at least one, of one host as one entry of the report; the first decides its kind and the hint.
// `found_here`: programs whose path the launcher's host chose, so that the cure may be another choice.
Error explain_problems(const std::string& host, const std::vector<wire::Problem>& problems,
                       const std::vector<FoundProgram>& found_here);

}  // namespace trainrun
