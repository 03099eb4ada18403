// The words of the command line, taken apart: our flags, and the program's own words. Pure, and the only code
// that knows how flags are spelled. (Why no library does it: launcher/decisions/0010-no-cli11.md.)
//
//   trainrun [flags] [--] program [arguments] [: [flags] [--] program [arguments]] ...
//
// Flags have one dash or two (`-np`, `--np`, `-hostfile`), `_` or `-` inside, their value after `=` or
// in the next word. The first word that is no flag begins the program; nothing after it is ours, but a lone
// `:`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "launcher/base/error.h"

namespace trainrun::cli {

// One setting from outside, not yet checked. `origin` says where it came from, as the user wrote it: "-np",
// "TRAINRUN_NP", "job.toml:3:9".
struct Setting {
  Option option;
  std::string value;
  std::string origin;

  friend bool operator==(const Setting&, const Setting&) = default;
};

struct ArgvPart {
  std::vector<Setting> settings;     // in the order given; flags have the value "true"
  std::vector<std::string> program;  // the program and its arguments; of -m: its arguments
  friend bool operator==(const ArgvPart&, const ArgvPart&) = default;
};

// `words` without our own name. There is always at least one part.
Result<std::vector<ArgvPart>> split_argv(const std::vector<std::string>& words);

}  // namespace trainrun::cli
