// What --dry-run says about an elastic job. dry_run.h has the fields of the JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "launcher/core/job_spec.h"

namespace trainrun::cli {

// Where hosts come from, in a few words; `source` is the discovery's as it may be shown.
std::string discovery_words(const DiscoverySpec& discovery, const std::string& source);

// A block of lines that ends with a newline; empty for a job that ends at its first failure.
std::string elastic_text(const Elastic& elastic, const std::string& source);

nlohmann::ordered_json elastic_json(const Elastic& elastic,
                                    const std::string& source);  // null for such a job

}  // namespace trainrun::cli
