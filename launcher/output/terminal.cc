#include "launcher/output/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace trainrun::output {

TerminalFacts look_at_terminal() {
  TerminalFacts facts;
  facts.in = ::isatty(STDIN_FILENO) == 1;
  facts.out = ::isatty(STDOUT_FILENO) == 1;
  facts.err = ::isatty(STDERR_FILENO) == 1;
  const char* const no_colour = std::getenv("NO_COLOR");
  const char* const term = std::getenv("TERM");
  const bool knows_sequences = term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
  facts.colour = knows_sequences && (no_colour == nullptr || *no_colour == '\0');
  // In `trainrun ... | grep` the terminal is another program's too: what it prints would tear our line, and
  // we its lines.
  facts.redraw = facts.out && facts.err && knows_sequences && std::getenv("CI") == nullptr;
  return facts;
}

std::size_t columns_of(int fd) {
  constexpr std::size_t usual = 80;
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : usual;
}

}  // namespace trainrun::output
