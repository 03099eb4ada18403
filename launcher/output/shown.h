// Whose output is shown, and how: --only-rank, --local-ranks-filter, --redirects, --tag. Pure.
#pragma once

#include <cstdint>

#include "launcher/core/job_spec.h"
#include "launcher/output/mux.h"

namespace trainrun::output {

// The largest world that the job may have.
int max_ranks(const JobSpec& job);
// `none` or what begins each line.
Tag tag_of(const JobSpec& job);
// One rank is shown, and nothing is written around its lines.
bool passes_bytes(const JobSpec& job);
Hidden hidden_streams(const JobSpec& job, std::uint32_t rank, std::uint32_t local_rank);

}  // namespace trainrun::output
