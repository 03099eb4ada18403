// The walk over a command line before CLI11 reads it: it knows how people spell flags, CLI11 does not
// (launcher/decisions/0010-cli11-behind-a-walk.md). Pure.
//
// Flags have one dash or two (`-np`, `--np`, `-hostfile`), `_` or `-` inside, their value after `=` or in the
// next word. The walk writes each in its canonical spelling, with its value as a word of its own, refuses
// what is no flag of this line, and finds where a program begins.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "launcher/base/error.h"

namespace trainrun::cli {

struct Walked {
  struct Found {
    const Flag* flag;
    std::string spelled;  // as it was typed: "-np"
  };
  std::vector<std::string> words;  // for parse(): "--np" "4" "--timestamp" "true"
  std::vector<Found> found;        // each flag in `words`, in order
  std::size_t used = 0;            // so many of the given words are ours; a program begins there
};

// No value may be empty where `line.program` is set: an empty word there is a variable of a script that was
// not set.
Result<Walked> walk(const CommandLine& line, std::span<const std::string> given);

}  // namespace trainrun::cli
