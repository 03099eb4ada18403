#include "launcher/core/innermost_frame.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "launcher/base/strings.h"

namespace trainrun::core {
namespace {

constexpr std::size_t longest_name = 60;

// "PMPI_Recv", as MPI's own names have it: what profilers replace is called MPI_Recv, and it is the same.
std::string mpi_function(std::string_view name) {
  if (name.starts_with("PMPI_")) name.remove_prefix(1);
  const bool is =
      name.starts_with("MPI_") && name.size() > 4 && std::isupper(static_cast<unsigned char>(name[4]));
  return is ? std::string(name) : std::string{};
}

// gdb: "#3 name at file.c:3" or "#3 name from /lib/x.so"; py-spy: "    name (file.py:3)".
std::string_view name_in(std::string_view line) {
  if (line.starts_with("#")) {
    const auto space = line.find(' ');
    if (space == line.npos) return {};
    line = trim(line.substr(space));
    line = line.substr(0, std::min(line.find(" at "), line.find(" from ")));
    if (line.starts_with("__GI_")) line.remove_prefix(5);  // glibc's names for what it calls itself
    return line == "??" ? std::string_view{} : line;
  }
  return line.starts_with("    ") && line.ends_with(")") ? trim(line) : std::string_view{};
}

}  // namespace

InnermostFrame innermost_frame(std::string_view stack) {
  InnermostFrame found;
  bool in_main = false;
  for (const auto line : split(stack, '\n')) {
    if (line.starts_with("kernel, thread ")) break;
    if (line.starts_with("Thread ") && std::exchange(in_main, true)) break;
    const auto name = name_in(line);
    if (name.empty()) continue;
    found.seen = true;
    if (found.name.empty()) found.name = name.substr(0, longest_name);
    // The outermost is what the program has called; MPI may call itself.
    if (auto mpi = mpi_function(name); !mpi.empty()) found.mpi = std::move(mpi);
  }
  return found;
}

}  // namespace trainrun::core
