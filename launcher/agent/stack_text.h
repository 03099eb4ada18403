// What of a debugger's words tells where a program stands. Pure.
#pragma once

#include <string>
#include <string_view>

namespace trainrun::agent {

// The frames that gdb printed and the lines that name their threads, in its order, without arguments and
// addresses. Without any frame all that it said, which says why.
std::string frames_of_gdb(std::string_view text);

// What py-spy printed, the main thread first.
std::string frames_of_py_spy(std::string_view text);

}  // namespace trainrun::agent
