// What a command gives to a shell, and what that may run, by rule of thumb: nothing is expanded.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainrun::agent {

// Scripts that start scripts are followed so far: each may name all others.
constexpr int deepest_script = 2;

// By its name or path: sh, bash, ...
bool is_shell(const std::string& word);

// What a shell runs for word `i` of a command that starts in `directory`: of `bash -e run.sh` the text of
// run.sh, of `sh -c TEXT` that text, and of a script for a shell its own. A program without a `#!` line is
// one too where it comes first and is text: the kernel leaves it to sh. `path` is where the word's program
// was found, if it was.
std::optional<std::string> text_for_shell(const std::vector<std::string>& words, std::size_t i,
                                          const std::string& path, const std::string& directory);

// Words of such a text that may be programs, files or arguments, each once.
std::vector<std::string> words_of_text(std::string_view text);

// Whether a command of this text is a launcher, which starts ranks of its own; not where it is only spoken
// of.
bool starts_ranks(std::string_view text);

// Whether what this text tells a shell to run is known to that shell alone: a variable names it, it is
// meant from a directory that is entered first, or what it finds is set up first (source, module, PATH=).
// "$@" and "$1" are words of the command line.
bool hides_a_program(std::string_view text, const std::string& directory);

}  // namespace trainrun::agent
