// Where a job stands; see job_machine.h.
#pragma once

#include <cstdint>
#include <string>

namespace trainrun::core {

enum class JobPhase : std::uint8_t { gathering, forming, running, draining, cooling, closing, done };
std::string to_string(JobPhase phase);

}  // namespace trainrun::core
