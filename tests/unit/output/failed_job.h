// A job that a rank has ended, and its report.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <utility>
#include <vector>

#include "launcher/output/report.h"

namespace trainrun {

inline JobSpec job_of_two() {
  JobSpec job;
  job.hosts.hosts = {Host{"gpu1"}, Host{"gpu2"}};
  job.programs = {Program{{"train"}, 4, "/work"}};
  return job;
}

inline core::Outcome failed(const ExitStatus& status) {
  core::Outcome outcome;
  outcome.kind = core::Outcome::Kind::worker_failed;
  outcome.cause = core::Failure{WorkerId{4}, Rank{3}, HostIndex{1}, 4242, status};
  outcome.after = seconds(3);
  return outcome;
}

inline std::string text(const core::Outcome& outcome, std::vector<std::string> words = {},
                        const JobSpec& job = job_of_two(), std::string clock = {}) {
  return fmt::format(
      "{}", fmt::join(output::report_lines(job, outcome, {std::move(words), std::move(clock)}), "\n"));
}

inline const std::string first = "  first       rank 3  host gpu2  pid 4242";

}  // namespace trainrun
