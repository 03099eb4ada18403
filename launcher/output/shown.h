// Whose output is shown: --only-rank, --local-ranks-filter, --redirects. Pure.
#pragma once

#include <cstdint>

#include "launcher/core/job_spec.h"
#include "launcher/output/mux.h"

namespace trainrun::output {

Hidden hidden_streams(const JobSpec& job, std::uint32_t rank, std::uint32_t local_rank);

}  // namespace trainrun::output
