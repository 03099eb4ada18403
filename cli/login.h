// What a login by ssh needs on this host, looked at before anybody is called.
#pragma once

#include <functional>

#include "launcher/base/error.h"
#include "launcher/core/job_spec.h"

namespace trainrun::cli {

// Our user's entry and the private keys that are named, for the hosts that need a login. What is wrong is
// told once, however many hosts it concerns.
Result<void> logins_are_possible(const JobSpec& job, const std::function<bool(const Host&)>& needs_no_login);

}  // namespace trainrun::cli
