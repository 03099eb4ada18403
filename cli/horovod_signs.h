// By what a command line is seen to be horovodrun's where our own name was called, as under
// `alias horovodrun=trainrun`. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace trainrun::cli {

// Whether an option that only horovodrun has stands before the program.
bool has_option_of_horovodrun(const std::vector<std::string>& words);

// Where the program stands, if there are options before it and horovodrun has all of them.
std::optional<std::size_t> program_behind_its_options(const std::vector<std::string>& words);

}  // namespace trainrun::cli
