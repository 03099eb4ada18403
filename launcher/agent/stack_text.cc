#include "launcher/agent/stack_text.h"

#include "launcher/base/strings.h"

namespace trainrun::agent {
namespace {

// "#3  0x00007f704401f116 in name (a=1, b=...) at file.c:3" without address and arguments.
std::string plain_frame(std::string_view line) {
  const auto number = line.substr(0, line.find(' '));
  auto rest = trim(line.substr(number.size()));
  if (rest.starts_with("0x")) {
    if (const auto in = rest.find(" in "); in != std::string_view::npos) rest = rest.substr(in + 4);
  }
  // The list of arguments opens after the name, which may hold parentheses itself, as C++'s operators do.
  const auto open = rest.find(" (");
  if (open == std::string_view::npos) return std::string(number) + " " + std::string(rest);
  auto place = rest.rfind(") at ");
  if (place == std::string_view::npos) place = rest.rfind(") from ");
  return std::string(number) + " " + std::string(rest.substr(0, open)) +
         (place == std::string_view::npos ? "" : std::string(rest.substr(place + 1)));
}

}  // namespace

std::string frames_of_gdb(std::string_view text) {
  std::string kept;
  bool frames = false;
  for (const auto line : split(text, '\n')) {
    const bool frame = line.starts_with("#");
    frames |= frame;
    if (frame) {
      const auto plain = plain_frame(line);
      // Of several without a name one says it.
      if (!plain.ends_with(" ??") || !kept.ends_with(" ??\n")) kept += plain + "\n";
    }
    // "Thread 2 (Thread 0x7f... (LWP 4242) "name"):"
    if (line.starts_with("Thread ") && line.ends_with(":")) kept += std::string(line) + "\n";
  }
  return frames ? kept : std::string(text);
}

std::string frames_of_py_spy(std::string_view text) {
  std::string main, others;
  std::string* at = &main;  // what precedes all threads names the program
  for (const auto line : split(text, '\n')) {
    if (line.starts_with("Thread ")) at = line.find("\"MainThread\"") != line.npos ? &main : &others;
    if (!line.empty()) *at += std::string(line) + "\n";
  }
  return main + others;
}

}  // namespace trainrun::agent
