// The texts of the settings of an elastic job, turned into what they mean. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "launcher/core/job_spec.h"

namespace trainrun::cli {

// The longest time that parse_duration knows: as a window it is the whole life of a job.
constexpr Duration whole_job = std::chrono::hours(24 * 3650);

struct HostRange {
  int min = 1, max = 1;
};
std::optional<HostRange> parse_host_range(std::string_view text);  // "2", "2:4"; 1..65536 each

// "3" (within the hour of the default), "3/10m", "0".
std::optional<RestartLimit> parse_restart_limit(std::string_view text);

struct TimeRange {
  Duration min{}, max{};
};
std::optional<TimeRange> parse_time_range(std::string_view text);  // "10 300", "10s,5m"; min <= max

// "TERM", "SIGTERM", "usr1": signals that end or tell, and that a program can handle.
std::optional<int> parse_signal(std::string_view text);

// "script:CMD", "file:PATH" (as written), "dns:[user@]NAME[:SLOTS]", "slurm": kind and source, the rest by
// default.
std::optional<DiscoverySpec> parse_discovery(std::string_view text);

}  // namespace trainrun::cli
