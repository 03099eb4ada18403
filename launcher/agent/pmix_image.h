// The helper for PMIx (launcher/pmix), embedded in the agent: a dynamic program that needs the C library
// alone, executed from memory.
#pragma once

#include <string_view>

#include "launcher/base/fd.h"

namespace trainrun::agent {

std::string_view pmix_image();

// The image in a file that can be executed, without a name. Empty: errno says why.
Fd pmix_image_file();

}  // namespace trainrun::agent
