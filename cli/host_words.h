// `-H node1 node2 ./train`, as a shell makes it of `-H node{1..2} ./train`: the second host would be taken
// for the program. Pure.
#pragma once

#include "cli/argv.h"
#include "cli/config.h"
#include "launcher/base/error.h"

namespace trainrun::cli {

// An error where the word after the last -H is a host rather than a program: it is written like that host,
// and no such program is here.
Result<void> check_host_words(const ArgvPart& part, const Inputs& inputs);

}  // namespace trainrun::cli
