// A command line of horovodrun, read as ours. Pure; the options are in horovod_flags.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/config.h"
#include "cli/horovod_flags.h"
#include "cli/mpi_line.h"
#include "launcher/base/error.h"

namespace trainrun::cli {

// The origin of what horovodrun does without being told.
constexpr std::string_view as_horovodrun = "as horovodrun does";

struct HorovodLine {
  MpiLine line;
  bool check_build = false;
};

// `words`: without our own name. `by_name`: horovodrun was called, and its -v shows the version; else -v is
// ours.
Result<HorovodLine> read_horovod_line(const std::vector<std::string>& words, const Inputs& inputs,
                                      bool by_name);

// The flags of horovodrun, then those of ours that have another name.
const CommandLine& horovod_line();

// The row of a flag of such a line, or nothing for one of ours.
const HorovodFlag* row_of(const Flag& flag, const CommandLine& line);

// What --help answers.
std::string horovod_help();

}  // namespace trainrun::cli
