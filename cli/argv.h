// The words of the job's command line, taken apart: our flags, and the program's own words. Pure.
//
//   trainrun [flags] [--] program [arguments] [: [flags] [--] program [arguments]] ...
//
// Each part between lone `:` is parsed by itself (parse.h). The first word that is no flag begins the
// program; nothing after it is ours.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.h"
#include "cli/options.h"
#include "cli/parse.h"
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

// A flag of another launcher that changes nothing here, as it was typed.
struct LeftOut {
  std::string spelled;
  std::string_view why;
  std::string value{};
  friend bool operator==(const LeftOut&, const LeftOut&) = default;
};

struct ArgvPart {
  std::vector<Setting> settings;     // in the order given; flags have the value "true"
  std::vector<std::string> program;  // the program and its arguments; of -m: its arguments
  std::vector<LeftOut> left_out{};
  friend bool operator==(const ArgvPart&, const ArgvPart&) = default;
};

// A part as it was read, before its flags have a meaning.
struct GivenPart {
  std::vector<Given> flags;          // of the line by which it was read
  std::vector<std::string> program;  // as in ArgvPart
};

// `words` without our own name. There is always at least one part.
Result<std::vector<GivenPart>> split_parts(const CommandLine& line, const std::vector<std::string>& words);

// What `given`, a flag of job_line(), means for `part`.
Result<void> take_flag(const Flag& flag, Given given, ArgvPart& part);

// As under torchrun, a stream that is redirected and teed is shown: a --tee takes the part's --redirects
// away.
void show_what_is_teed(ArgvPart& part);

// The parts of our own command line.
Result<std::vector<ArgvPart>> split_argv(const std::vector<std::string>& words);

}  // namespace trainrun::cli
