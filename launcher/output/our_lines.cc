#include "launcher/output/our_lines.h"

#include <fmt/format.h>

#include "launcher/base/advice.h"
#include "launcher/base/exit_code.h"
#include "launcher/base/strings.h"
#include "launcher/base/utf8.h"

namespace trainrun::output {

std::string our_line(std::string_view text) { return printable(text) + "\n"; }

void print_line(std::FILE* to, std::string_view text) { std::fputs(our_line(text).c_str(), to); }

std::string split_line(Rank rank) {
  return fmt::format(
      "a line of rank {} is longer than 1 MiB: it is shown in pieces (--output-filename keeps lines whole)",
      rank.value);
}

std::string unread_line(std::size_t bytes, Duration time_limit) {
  return fmt::format("{} of output wait for their reader, {} at most (^C drops them)",
                     counted(static_cast<std::int64_t>(bytes), "byte"), format_duration(time_limit));
}

std::vector<std::string> lines_of(const Error& error) {
  std::vector<std::string> lines{"trainrun: " + error.message};
  if (!error.hint.empty()) lines.push_back("  " + advice(error.hint));
  return lines;
}

int print_error(const Error& error) {
  for (const auto& line : lines_of(error)) print_line(stderr, line);
  return to_int(exit_code_of(error.code));
}

}  // namespace trainrun::output
