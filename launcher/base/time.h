// Durations and instants as values. Nothing here reads a clock.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace trainrun {

using Duration = std::chrono::nanoseconds;
using Instant = std::chrono::steady_clock::time_point;
using std::chrono::milliseconds;
using std::chrono::seconds;

// "90", "90s", "1.5", "250ms", "2m", "1h", "1d", "1:30" (m:s), "1:00:00" (h:m:s): what mpirun, Slurm and
// people write. A bare number is seconds. Empty for anything else, for negatives, and above 10 years.
std::optional<Duration> parse_duration(std::string_view text);

inline double in_seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

// Short, for people: "0.21 s", "3.0 s", "2m05s", "1h02m".
std::string format_duration(Duration duration);

}  // namespace trainrun
