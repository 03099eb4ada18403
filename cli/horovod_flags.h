// The options of horovodrun 0.28.1, and what becomes of each here: the one table of them. Pure data;
// horovod_line.h reads it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "cli/command_line.h"
#include "cli/mpi_flags.h"
#include "cli/options.h"

namespace trainrun::cli {

// What a setting of Horovod's must be.
enum class Knob : std::uint8_t {
  none,
  count,      // 0 or more
  real,       // the same, with a fraction
  share,      // 0 to 1
  megabytes,  // a count; the variable has bytes
  level,      // TRACE, DEBUG, INFO, WARNING, ERROR, FATAL
  text,
};

// What else an option does than to set one of ours, or one variable.
enum class HorovodHow : std::uint8_t { none, variable, config_file, check_build, networks, mpi };

struct HorovodFlag {
  std::vector<std::string_view> names;  // the first is that of messages
  Takes takes;
  Fate fate;
  Option option = Option::help;  // of works
  std::string_view value{};      // of works, and of a variable: that one instead of what was given
  HorovodHow how = HorovodHow::none;
  std::string_view variable{};  // HOROVOD_...
  Knob knob = Knob::none;
  std::string_view why{};   // of needless and refused
  std::string_view yaml{};  // where the configuration file has it: "params.cycle_time_ms"
};
std::span<const HorovodFlag> horovod_flags();

}  // namespace trainrun::cli
