// The last thing that is printed: why the job ended. Pure: from the outcome to lines.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/core/job_spec.h"
#include "launcher/core/outcome.h"
#include "launcher/output/recorded_error.h"

namespace trainrun::output {

struct ReportFacts {
  std::vector<std::string> last_words;      // of the cause's stderr
  std::string wall_clock;                   // of the cause, "14:03:22.118", or empty
  std::optional<RecordedError> recorded{};  // what the cause wrote down about its end
  bool this_host = false;                   // the host that was lost is the launcher's own
  bool raised = false;                      // the last words are the exception of a traceback
  std::vector<std::string> last_output{};   // of its stdout, for a cause without words on stderr
};

// Empty for a success (silence is the good news), unless something outlived the workers.
std::vector<std::string> report_lines(const JobSpec& job, const core::Outcome& outcome,
                                      const ReportFacts& facts);

}  // namespace trainrun::output
