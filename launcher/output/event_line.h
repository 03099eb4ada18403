// What happens to a job, as lines of JSON for programs: --events. Pure. The names are those of the records
// in core/notice.h and core/cause.h; trainrun-events(7) is the page that users read, and must change with
// events_schema.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "launcher/base/time.h"
#include "launcher/core/job_spec.h"
#include "launcher/core/notice.h"
#include "launcher/core/outcome.h"

namespace trainrun::output {

// Grows when a line no longer means what it meant; that lines and fields are added is no such change.
constexpr int events_schema = 1;

// When a line was made.
struct Moment {
  std::string time;        // "2026-11-22T14:03:22.123Z"
  Duration since_start{};  // of the launcher's own time
};
// The first kind of `time`, from the wall clock.
std::string utc_time(Duration since_epoch);

// Each with its newline.
std::string start_line(const Moment& moment, const JobSpec& job, const std::string& version, int pid);
// `generation`: the latest, for notices that are of no other.
std::string event_line(const Moment& moment, Generation generation, const core::Notice& notice);
// `report`: as the user reads it.
std::string end_line(const Moment& moment, const JobSpec& job, const core::Outcome& outcome, int exit_code,
                     const std::vector<std::string>& report);
std::string dropped_line(std::size_t lines);

}  // namespace trainrun::output
