// What this build of the library and this host can do, in words.
#pragma once

#include <string>

namespace trainrun::comm {

// Lines for people, or one JSON object. Loads NCCL and CUDA's driver, and tries shared memory.
std::string host_report(bool json);

}  // namespace trainrun::comm
