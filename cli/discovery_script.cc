#include "cli/discovery_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/program.h"
#include "cli/program_search.h"
#include "launcher/base/strings.h"
#include "launcher/base/utf8.h"
#include "launcher/core/script.h"

namespace trainrun::cli {

namespace {

// What /bin/sh runs without a file: nothing of that name need be in PATH.
constexpr std::string_view of_the_shell[] = {
    ".",    "[",    "alias",    "break",  "case",    "cd",      "command", "continue", "echo",  "eval",
    "exec", "exit", "export",   "false",  "for",     "getopts", "hash",    "if",       "local", "printf",
    "pwd",  "read", "readonly", "return", "set",     "shift",   "test",    "time",     "times", "trap",
    "true", "type", "ulimit",   "umask",  "unalias", "unset",   "until",   "wait",     "while"};

// By what a file without `#!` was meant to be run, by its name.
constexpr std::pair<std::string_view, std::string_view> languages[] = {
    {".py", "python3"}, {".pl", "perl"}, {".rb", "ruby"}, {".js", "node"}};

bool is_plain(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("/._-+").find(c) != std::string_view::npos;
  });
}

class Check {
 public:
  Check(const std::string& flag, const Inputs& inputs) : flag_(flag), inputs_(inputs) {}

  Result<void> command(const std::string& command) const {
    const auto words = plain_words(command);
    if (words.empty()) return {};
    if (auto ok = program(words.front()); !ok) return ok;
    return interpreted(words);
  }

 private:
  // The words up to the first that only a shell understands.
  static std::vector<std::string> plain_words(std::string_view text) {
    std::vector<std::string> words;
    while (!(text = trim(text)).empty()) {
      const auto end = std::min(text.find_first_of(" \t\n"), text.size());
      if (!is_plain(text.substr(0, end))) break;
      words.emplace_back(text.substr(0, end));
      if (end < text.size() && text[end] == '\n') break;  // another command
      text.remove_prefix(end);
    }
    return words;
  }

  [[nodiscard]] tl::unexpected<Error> wrong(const std::string& what, std::string hint) const {
    return fail(Code::config, fmt::format("{}: {}", flag_, what), std::move(hint));
  }

  [[nodiscard]] Result<void> program(const std::string& word) const {
    if (word.find('/') == std::string::npos) return named(word);
    const auto path = absolute_path(word, inputs_);
    if (!inputs_.is_file(path)) {
      if (inputs_.is_directory(path)) return wrong(quoted(path) + " is a directory", "");
      return wrong(quoted(path) + " does not exist", "a relative path is taken from where you are");
    }
    if (!inputs_.is_executable(path))
      return wrong(quoted(path) + " is not executable", "chmod +x " + printable(shell_quote(word)));
    return first_line(word, path);
  }

  [[nodiscard]] Result<void> named(const std::string& word) const {
    if (std::find(std::begin(of_the_shell), std::end(of_the_shell), word) != std::end(of_the_shell))
      return {};
    const auto path = variable(inputs_.environment, "PATH");
    if (path.empty()) return {};
    if (const auto found = search_path(word, path, inputs_.directory, inputs_); !found.empty())
      return first_line(word, found);
    const auto here = path_under(inputs_.directory, word);
    if (!inputs_.is_file(here))
      return wrong(quoted(word) + " is neither in PATH nor here", "check the spelling, or write its path");
    return wrong(quoted(word) + " is not in PATH, where a name without '/' is looked for",
                 inputs_.is_executable(here)
                     ? fmt::format("it is here: write ./{}", word)
                     : fmt::format("it is here, but not executable: chmod +x {0}, and write ./{0}", word));
  }

  // `word` is the file as it was typed.
  [[nodiscard]] Result<void> first_line(const std::string& word, const std::string& path) const {
    const auto line = inputs_.first_line(path);
    if (!line.starts_with("#!")) return without_interpreter(word, line);
    if (line.ends_with('\r')) {
      return wrong(quoted(path) + " has the line ends of Windows, and its first line names no program so",
                   fmt::format("sed -i 's/\\r$//' {}", printable(shell_quote(word))));
    }
    const auto words = core::interpreter_of(line);
    if (words.empty()) return {};
    const auto& name = words.front();
    const bool there =
        name.starts_with('/')
            ? inputs_.is_executable(name)
            : !search_path(name, variable(inputs_.environment, "PATH"), inputs_.directory, inputs_).empty();
    if (there) return {};
    return wrong(fmt::format("{} is to be run by {}, which is not here", quoted(path), quoted(name)),
                 fmt::format("correct its first line: {}", printable(line)));
  }

  [[nodiscard]] Result<void> without_interpreter(const std::string& word, const std::string& line) const {
    for (const auto& [ending, program] : languages) {
      if (line.empty() || !word.ends_with(ending)) continue;
      return wrong(fmt::format("{} has no '#!' line, so /bin/sh would run it", quoted(word)),
                   fmt::format("write '{0} {1}', or make its first line #!/usr/bin/env {0}", program, word));
    }
    return {};
  }

  // `python3 hosts.py`, `sh hosts.sh`
  [[nodiscard]] Result<void> interpreted(const std::vector<std::string>& words) const {
    auto script = core::script_of(words);
    const auto base = words.front().substr(words.front().rfind('/') + 1);
    if (script.empty() && words.size() > 1 && (base == "sh" || base == "bash" || base == "dash") &&
        !words[1].starts_with('-'))
      script = words[1];
    if (script.empty() || !is_plain(script)) return {};
    const auto path = absolute_path(script, inputs_);
    if (inputs_.is_file(path)) return {};
    return wrong(fmt::format("{} is to run {}, which does not exist", quoted(words.front()), quoted(path)),
                 "a relative path is taken from where you are");
  }

  const std::string& flag_;
  const Inputs& inputs_;
};

}  // namespace

Result<void> check_discovery_script(const std::string& flag, const std::string& command,
                                    const Inputs& inputs) {
  return Check(flag, inputs).command(command);
}

}  // namespace trainrun::cli
