// The words after `trainrun rendezvous`, taken apart. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/base/error.h"
#include "rendezvous/standalone.h"

namespace trainrun::cli {

// Nothing when the words ask for help. Of a flag that is repeated the last one counts, as in the launcher.
Result<std::optional<rendezvous::StandaloneOptions>> parse_rendezvous(const std::vector<std::string>& words);

}  // namespace trainrun::cli
