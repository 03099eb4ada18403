// Every command line of ours goes through here: the walk, then CLI11, which parse.cc alone knows. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "launcher/base/error.h"

namespace trainrun::cli {

struct Given {
  const Flag* flag = nullptr;  // of the line's flags
  std::string spelled;         // as it was typed: "-np"
  std::string value;           // "true" of a flag that was given none; of a topic: empty
};

struct Parsed {
  std::vector<Given> flags{};        // in the order given, also repeated ones
  std::vector<std::string> words{};  // what stood beside them, at most line.words
  std::size_t used = 0;              // so many of the given words are ours; a program begins there
};

bool asks_for_help(const Parsed& parsed);  // --help is among its flags

// An Error's code is usage.
Result<Parsed> parse(const CommandLine& line, std::span<const std::string> given);

}  // namespace trainrun::cli
