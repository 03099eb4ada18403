// A command line of horovodrun, read as ours. Pure; the options are in horovod_flags.h.
#pragma once

#include <string>
#include <vector>

#include "cli/config.h"
#include "cli/mpi_line.h"
#include "launcher/base/error.h"

namespace trainrun::cli {

struct HorovodLine {
  MpiLine line;
  bool check_build = false;
};

// `words`: without our own name.
Result<HorovodLine> read_horovod_line(const std::vector<std::string>& words, const Inputs& inputs);

// The flags of horovodrun, then those of ours that have another name.
const CommandLine& horovod_line();

// What --help answers.
std::string horovod_help();

}  // namespace trainrun::cli
