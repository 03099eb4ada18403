// Named delays and failures, in every build: a race is tested by widening it, not by hoping for it.
//
// TRAINRUN_FAULT is a comma list of `point=delay:MILLISECONDS`, `point=fail[:ERRNO]`, and `point=kill[:N]`,
// `point=stop[:N]` and `point=exit[:N]`, by which the process ends or stops itself when it passes for the
// N-th time: by SIGKILL, SIGSTOP, or with code 3 and no clean-up. The points are listed in tests/README.md;
// each is used by at least one test. A launcher hands the variable on to its agents.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace trainrun::fault {

// To be called once, before any point is passed; an empty text switches all off.
void configure(std::string_view text);
// What it was configured with.
const std::string& configured();

// Sleeps if a delay is set for `name`; gives the errno to fail with if a failure is set (EIO if none was
// named).
std::optional<int> point(std::string_view name);

}  // namespace trainrun::fault
