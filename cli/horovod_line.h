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

// `words`: without our own name. `by_name`: horovodrun was called, and its -v shows the version; else -v is
// ours.
Result<HorovodLine> read_horovod_line(const std::vector<std::string>& words, const Inputs& inputs,
                                      bool by_name);

// Whether an option that only horovodrun has stands before the program, as under `alias horovodrun=trainrun`.
bool has_option_of_horovodrun(const std::vector<std::string>& words);

// Where the program stands, if there are options before it and horovodrun has all of them.
std::optional<std::size_t> program_behind_its_options(const std::vector<std::string>& words);

// The flags of horovodrun, then those of ours that have another name.
const CommandLine& horovod_line();

// What --help answers.
std::string horovod_help();

}  // namespace trainrun::cli
