// Which events the schedules brought in which phases, and which never.
#pragma once

#include "tests/sim/simulation.h"

namespace trainrun::sim {

void print_coverage(const Stats& stats);

}  // namespace trainrun::sim
