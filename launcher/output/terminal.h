// What our own stdin, stdout and stderr are, and what the user's environment wants of them. Read once at the
// start, but for the width; everything else is told.
#pragma once

#include <cstddef>

namespace trainrun::output {

struct TerminalFacts {
  bool in = false, out = false, err = false;  // a terminal
  bool colour = true;                         // NO_COLOR is not set
  bool redraw = false;                        // both are terminals, and a line can be drawn again there
};

TerminalFacts look_at_terminal();

// Of the terminal behind it, now: windows change.
std::size_t columns_of(int fd);

}  // namespace trainrun::output
