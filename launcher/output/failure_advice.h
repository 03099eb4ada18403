// Why a rank failed, as far as its end and its last words tell, and what to try.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/core/job_spec.h"
#include "launcher/core/outcome.h"

namespace trainrun::output {

struct Advice {
  std::string how;     // replaces the plain description when the evidence says more
  std::string hint;    // empty: none is known
  bool where = false;  // the hint tells only where to look
};

// `words` are its last ones, or those of the exception that it wrote down; `raised`: an exception was the
// end.
Advice advise(const JobSpec& job, const core::Failure& cause, const std::string& host,
              const std::vector<std::string>& words, bool raised);

bool any_line_has(const std::vector<std::string>& lines, std::string_view text);

}  // namespace trainrun::output
