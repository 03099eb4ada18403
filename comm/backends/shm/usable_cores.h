// How many threads can run at the same time, so that a rank knows whether to wait on its core costs somebody
// else's.
#pragma once

#include <sched.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace trainrun::comm {

// Cores that this thread may run on; all of them if that cannot be known.
cpu_set_t own_cores();
// The cores of a cgroup's "cpu.max" ("150000 100000" is 1, never less); nothing when there is no limit.
std::optional<std::uint32_t> cores_of_limit(std::string_view cpu_max);
// As many of `cores` as this process's cgroup lets it use at once.
std::uint32_t usable_cores(const cpu_set_t& cores);

}  // namespace trainrun::comm
