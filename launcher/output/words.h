// What the brain tells, in words for people. Pure. The job machine knows facts alone: its notices become
// sentences here and in report.h. Parts of core beside it make some of their own (core/README.md).
#pragma once

#include <string>
#include <vector>

#include "launcher/core/cause.h"
#include "launcher/core/job_action.h"
#include "launcher/core/notice.h"

namespace trainrun::output {

// The lines of a notice; nearly always one.
std::vector<std::string> words(const core::Notice& notice);

// "rank 3 on gpu1 was killed by SIGSEGV"
std::string words(const core::Cause& cause);
// What to try against it; may be empty.
std::string hint(const core::Cause& cause);

// What the members of a generation that is over learn of its end: with a culprit of the job's end, how it
// ended; else what ended the generation.
std::string reason_for_members(const core::EndGeneration& end);

}  // namespace trainrun::output
