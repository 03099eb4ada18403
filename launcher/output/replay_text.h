// What `trainrun replay` prints of a journal. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/core/job_action.h"
#include "launcher/core/journal.h"

namespace trainrun::output {

// Who wrote it, when, and of which job; `here`: the build that replays it.
std::vector<std::string> journal_head(const core::journal::Header& header, const std::string& here);
// An event and what was decided then. Moments are told since the job began.
std::vector<std::string> step_lines(std::uint64_t number, const core::journal::Step& step,
                                    const core::JobActions& actions, Instant began);

}  // namespace trainrun::output
