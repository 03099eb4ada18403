// What an agent that serves PMIx is told about the world (wire::World).
#pragma once

#include <cstdint>
#include <string>

#include "launcher/core/job_action.h"
#include "launcher/core/job_spec.h"
#include "launcher/core/placement.h"
#include "launcher/wire/facts.h"
#include "launcher/wire/messages.h"

namespace trainrun::core {

// For the host of one of its ranks, which is about to be started. `mapping` is that of process_mapping.h.
wire::World introduction(const JobSpec& job, const Placement& placement, const StartWorker& one,
                         const wire::HostFacts& facts, std::uint32_t restarts, const std::string& mapping);

}  // namespace trainrun::core
