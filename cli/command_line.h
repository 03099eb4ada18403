// What one of our command lines may hold: the job's own, whose flags are the table of options.h, and those of
// the subcommands. Parsing, help and completion read it, so that a flag is named in one place.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/base/error.h"

namespace trainrun::cli {

enum class Takes : std::uint8_t {
  nothing,
  yes_or_no,   // after a '=', as in --timestamp=no; "true" without
  a_count,     // the same, and -vv is -v twice
  a_value,     // after a '=', or the next word
  two_values,  // the next two words; or one word with a blank or comma inside
  a_pair,      // NAME=VALUE as one word, or both as two
  a_topic,     // nothing, or the word "all"
};

struct Flag {
  std::string_view name{};                  // canonical, "--grace"
  std::vector<std::string_view> aliases{};  // "-np", "--num-proc"
  Takes takes = Takes::nothing;
  std::string_view value_name{};  // "N"; empty: takes nothing
  std::string_view help{};        // of a subcommand's flag; a line break where its line is to end
  std::string_view lookup{};      // the command that shows possible values; empty: none
  bool hidden = false;            // not in help and completion
  bool ends_flags = false;        // what follows its value belongs to the program

  [[nodiscard]] bool takes_value() const {
    return takes == Takes::a_value || takes == Takes::two_values || takes == Takes::a_pair;
  }
};

struct CommandLine {
  std::string_view prefix{};  // of messages: "rendezvous: "
  std::vector<Flag> flags{};
  std::size_t words = 0;  // how many words beside the flags there may be
  bool program = false;   // the first such word, or what follows `--`, begins a program and is not ours
  // Of so many flags, the first, the beginning of a long name will do where no other of them begins so.
  std::size_t shortened = 0;
  Error (*unknown)(std::string_view word) = nullptr;  // what to say about a flag that is not there
  // What is wrong with a flag's value, as far as that is known before all flags are read.
  std::optional<Error> (*misfit)(std::string_view spelled, const std::string& value) = nullptr;
  std::string_view usage{};  // what to try where a word is one too many
};

// "--Num_proc" and "-num-proc" are one flag: without dashes, and `-` for `_`. A single letter keeps its dash,
// and its case counts.
std::string bare_name(std::string_view spelled);
// The same as bare_name(spelled) == bare, which is asked of every row of the tables at each start.
bool is_bare_name_of(std::string_view bare, std::string_view spelled);

// By any spelling, and its beginning where the line allows that; nullptr when there is none.
const Flag* find_flag(const CommandLine& line, std::string_view spelled);

// The flags that may be cut short to `spelled`.
std::vector<const Flag*> flags_cut_to(const CommandLine& line, std::string_view spelled);

// The spelling of a long flag that is nearest to `word`, if one is near: "--job".
std::optional<std::string> nearest_flag(const CommandLine& line, std::string_view word);

// "  --np N, -np, -n   members\n" for each flag, the texts at `column`.
std::string help_on_flags(const CommandLine& line, std::size_t column);

}  // namespace trainrun::cli
