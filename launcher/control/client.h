// The end of `trainrun ctl`: finds launchers and asks one. It blocks, but never beyond its deadline.
#pragma once

#include <string>
#include <vector>

#include "launcher/base/error.h"
#include "launcher/base/time.h"
#include "launcher/control/protocol.h"

namespace trainrun::control {

struct RunningJob {
  std::string id, socket;
};

struct RunningJobs {
  std::vector<RunningJob> jobs;       // by id
  std::vector<std::string> problems;  // directories that are there, but not to be trusted: one line each
};

// The jobs of this user on this host. Nobody is asked yet.
RunningJobs find_jobs(const std::vector<std::string>& directories);

// One request, one reply: lines without their newline. Code::not_found when nobody listens any more,
// Code::unreachable when no whole reply came within `within`.
Result<std::string> ask(const std::string& socket, const std::string& request, Duration within);

}  // namespace trainrun::control
