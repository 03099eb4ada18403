// Which call a rank stands in, of the stack that a tool has shown. Pure.
#pragma once

#include <string>
#include <string_view>

namespace trainrun::core {

struct InnermostFrame {
  std::string mpi{};   // the MPI function that the program has called: "MPI_Recv"
  std::string name{};  // else, of the frames that have a name: "wait (threading.py:320)"; of those in a lock
                       // who called that, or its library
  bool seen = false;   // the stack holds frames of the program at all
};

// Of the main thread alone, which comes first in what gdb and py-spy say (agent/stack_text).
InnermostFrame innermost_frame(std::string_view stack);

}  // namespace trainrun::core
