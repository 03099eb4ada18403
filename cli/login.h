// What a login by ssh needs on this host, looked at before anybody is called.
#pragma once

#include <functional>

#include "launcher/base/error.h"
#include "launcher/core/job_spec.h"

namespace trainrun::cli {

// The private keys that are named for the hosts that need a login. What is wrong is told once, however many
// hosts it concerns.
Result<void> keys_are_usable(const JobSpec& job, const std::function<bool(const Host&)>& needs_no_login);

// Our user's entry, if any host needs a login. May ask a name service.
Result<void> user_is_known(const JobSpec& job, const std::function<bool(const Host&)>& needs_no_login);

}  // namespace trainrun::cli
