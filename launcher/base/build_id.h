// Which build this program is.
#pragma once

#include <string>

namespace trainrun {

// The identity that the linker has made of the program's bytes, in hex digits; empty if it has not.
std::string build_id();

}  // namespace trainrun
