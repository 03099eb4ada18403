#include "launcher/output/terminal.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace trainrun::output {

TerminalFacts look_at_terminal() {
  TerminalFacts facts;
  facts.in = ::isatty(STDIN_FILENO) == 1;
  facts.out = ::isatty(STDOUT_FILENO) == 1;
  facts.err = ::isatty(STDERR_FILENO) == 1;
  const char* no_colour = std::getenv("NO_COLOR");
  facts.colour = no_colour == nullptr || *no_colour == '\0';
  const char* term = std::getenv("TERM");
  // In `trainrun ... | grep` the terminal is another program's too: what it prints would tear our line, and
  // we its lines.
  facts.redraw = facts.out && facts.err && term != nullptr && std::string_view(term) != "dumb" &&
                 std::getenv("CI") == nullptr;
  return facts;
}

}  // namespace trainrun::output
