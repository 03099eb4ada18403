#include "launcher/agent/shell_text.h"

#include <algorithm>
#include <set>

#include "launcher/agent/program_files.h"
#include "launcher/base/fd.h"
#include "launcher/base/strings.h"
#include "launcher/base/wrapper.h"

namespace trainrun::agent {
namespace {

constexpr std::size_t most_text = 64u << 10, most_words = 256;

template <std::size_t size>
bool is_one_of(const std::string_view (&names)[size], std::string_view word) {
  return std::find(std::begin(names), std::end(names), word) != std::end(names);
}

enum class Told { nothing, file, text };

// What the shell before word `i` takes that for: `bash -e run.sh`, `sh -lc "..."`.
Told told_by_shell(const std::vector<std::string>& words, std::size_t i) {
  bool text = false;
  while (i-- > 0) {
    const auto& word = words[i];
    if (is_shell(word)) return text ? Told::text : Told::file;
    const bool option = word.size() > 1 && (word[0] == '-' || word[0] == '+');
    const bool has_value = i > 0 && (words[i - 1] == "-o" || words[i - 1] == "+o" || words[i - 1] == "-O");
    if (!option && !has_value) return Told::nothing;
    text = text || (word[0] == '-' && word[1] != '-' && word.ends_with('c'));
  }
  return Told::nothing;
}

// Words before a command that is run by them.
bool comes_before(std::string_view word) {
  constexpr std::string_view names[] = {"exec", "env", "command", "then",  "do",    "else",  "eval",
                                        "if",   "!",   "{",       "while", "until", "export"};
  return is_wrapper(word) || is_one_of(names, word);
}

// What they give decides which programs are found.
bool sets_up(std::string_view word) {
  constexpr std::string_view names[] = {"source", ".",     "module", "ml",
                                        "spack",  "conda", "mamba",  "micromamba"};
  return is_one_of(names, word);
}

bool is_text(std::string_view line) {
  return std::all_of(line.begin(), line.end(),
                     [](char c) { return static_cast<unsigned char>(c) >= 0x20 || c == '\t' || c == '\r'; });
}

}  // namespace

bool is_shell(const std::string& word) {
  constexpr std::string_view names[] = {"sh", "bash", "dash", "zsh", "ksh", "ash"};
  return is_one_of(names, name_of(word));
}

std::optional<std::string> text_for_shell(const std::vector<std::string>& words, std::size_t i,
                                          const std::string& path, const std::string& directory) {
  const auto told = told_by_shell(words, i);
  if (told == Told::text) return words[i];
  const auto& word = words[i];
  const auto file = !path.empty() ? path : word.starts_with('/') ? word : directory + "/" + word;
  if (word.empty() || !is_file(file)) return std::nullopt;
  const auto line = first_line(file);
  const bool by_line =
      line.starts_with("#!") && line.find("sh", std::min(line.rfind('/'), line.size())) != std::string::npos;
  const bool left_to_sh = i == 0 && !line.starts_with("#!");
  if (!by_line && !((told == Told::file || left_to_sh) && is_text(line))) return std::nullopt;
  return read_file(file, most_text).value_or(std::string{});
}

std::vector<std::string> words_of_text(std::string_view text) {
  std::vector<std::string> words;
  std::set<std::string> seen;
  for (const auto line : split(text, '\n')) {
    if (trim(line).starts_with('#')) continue;
    for (auto& word : cut(line, " \t;&|()'\"`")) {
      if (words.size() == most_words) return words;
      if (word.find_first_of("$=<>{}[]*?") == std::string::npos && !word.starts_with('-') &&
          seen.insert(word).second)
        words.push_back(std::move(word));
    }
  }
  return words;
}

bool starts_ranks(std::string_view text) {
  for (const auto& line : cut(text, "\n;&|()")) {
    if (trim(line).starts_with('#')) continue;
    for (const auto& quoted : cut(line, " \t'`")) {
      std::string word = quoted;
      std::erase(word, '"');
      if (is_launcher(word)) return true;
      const bool sets = word.find('=') != std::string::npos;
      const bool option =
          word.starts_with('-') || word.find_first_not_of("0123456789.smh") == std::string::npos;
      if (!sets && !option && !comes_before(word) && !is_shell(word)) break;
    }
  }
  return false;
}

bool hides_a_program(std::string_view text, const std::string& directory) {
  bool entered = false;  // another directory
  for (const auto& line : cut(text, "\n;&|()")) {
    if (trim(line).starts_with('#')) continue;
    for (const auto& quoted : cut(line, " \t'`")) {
      std::string word = quoted;
      std::erase(word, '"');
      const bool sets = word.find('=') != std::string::npos && !word.starts_with('$');
      if (word.starts_with("PATH=") || word.starts_with("LD_LIBRARY_PATH=")) return true;
      if (word.empty() || word.starts_with('-') || sets || comes_before(word)) continue;
      if (sets_up(word)) return true;
      const auto variable = word.find('$');
      const bool of_the_line = variable == 0 && word.size() == 2 && word.find_first_of("@*123456789", 1) == 1;
      if (variable != std::string::npos && !of_the_line) return true;
      const auto path = word.starts_with('/') ? word : directory + "/" + word;
      if (entered && word.find('/') != std::string::npos && !is_file(path)) return true;
      entered = entered || word == "cd" || word == "pushd";
      if (is_shell(word) && line.find('$', line.find(word)) != std::string::npos) return true;
      break;  // what follows are its arguments
    }
  }
  return false;
}

}  // namespace trainrun::agent
