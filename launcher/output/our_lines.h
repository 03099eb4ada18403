// What we say ourselves, wherever it is printed. Words of others get into our lines: of an ssh server that
// nobody has authenticated, a login shell, an agent, a rank's state. Each line passes here, where it is made
// printable; what ranks print is the mux's business.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/base/error.h"
#include "launcher/base/id.h"
#include "launcher/base/time.h"

namespace trainrun::output {

// With its end; nothing in it does anything to a terminal, or makes a line of its own.
std::string our_line(std::string_view text);
void print_line(std::FILE* to, std::string_view text);

// Of a line that Mux has cut.
std::string split_line(Rank rank);

// How much output waits, and for how long at most.
std::string unread_line(std::size_t bytes, Duration time_limit);

// "trainrun: MESSAGE", and "  try: HINT" if there is one.
std::vector<std::string> lines_of(const Error& error);
// These on stderr; gives the exit code of such an error.
int print_error(const Error& error);

}  // namespace trainrun::output
