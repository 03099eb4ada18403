#include "launcher/core/innermost_frame.h"

#include <algorithm>
#include <cctype>
#include <iterator>
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

// Of gdb: the library of a frame without a name.
std::string_view library_in(std::string_view line) {
  const auto from = line.find(" from ");
  if (!line.starts_with("#") || from == line.npos) return {};
  const auto library = line.substr(std::max(line.rfind('/') + 1, from + 6));
  return library.starts_with("libc.so") || library.starts_with("libpthread") ? std::string_view{} : library;
}

// What every thread is in that waits for another tells nothing; who called it does.
bool is_a_lock(std::string_view name) {
  constexpr std::string_view parts[] = {"futex",     "pthread_cond", "condition_variable", "sem_wait",
                                        "sem_timed", "sem_clock",    "lll_lock",           "mutex_lock"};
  return std::any_of(std::begin(parts), std::end(parts),
                     [&](std::string_view part) { return name.find(part) != name.npos; });
}

}  // namespace

InnermostFrame innermost_frame(std::string_view stack) {
  InnermostFrame found;
  bool in_main = false, locked = false;
  std::string lock;
  for (const auto line : split(stack, '\n')) {
    if (line.starts_with("kernel, thread ")) break;
    if (line.starts_with("Thread ") && std::exchange(in_main, true)) break;
    const auto name = name_in(line);
    if (name.empty() && locked && found.name.empty()) found.name = library_in(line).substr(0, longest_name);
    if (name.empty()) continue;
    found.seen = true;
    if (is_a_lock(name)) {
      if (!std::exchange(locked, true)) lock = name.substr(0, longest_name);
    } else if (found.name.empty()) {
      found.name = name.substr(0, longest_name);
    }
    // The outermost is what the program has called; MPI may call itself.
    if (auto mpi = mpi_function(name); !mpi.empty()) found.mpi = std::move(mpi);
  }
  if (found.name.empty()) found.name = std::move(lock);
  return found;
}

}  // namespace trainrun::core
