// The families of programs that learn their rank from variables, and the launchers and schedulers that set
// such variables: one row each.
#pragma once

#include <string_view>

namespace trainrun::core {

// Whether every rank has this variable from us (worker_env), whatever anybody gave it; those of PMI unless
// --compat is none. The agent's TRAINRUN_WORKER is among them.
bool is_always_set(std::string_view name);

// Variables by which launchers and schedulers tell a process its own rank or step, or steer a launcher: they
// are wrong for our workers, which do not inherit them. All that is always set is among them, and all of
// TRAINRUN_* but for the settings of programs on comm.
bool is_rank_variable(std::string_view name);

// Settings of programs on comm, and of nothing in the launcher.
bool is_setting_of_comm(std::string_view name);

}  // namespace trainrun::core
