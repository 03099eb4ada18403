// What read_request needs to know of this process and this machine. All effects of cli/ but printing are
// here.
#pragma once

#include "cli/config.h"
#include "launcher/base/error.h"

namespace trainrun::cli {

// `argv` as main got it. Fails when the working directory is gone or the kernel gives no random bytes.
Result<Inputs> inputs_of_this_process(int argc, char** argv, char** environment);

}  // namespace trainrun::cli
