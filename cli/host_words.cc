#include "cli/host_words.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "cli/program.h"
#include "cli/program_search.h"
#include "host-discovery/host_grammar.h"
#include "launcher/base/strings.h"
#include "launcher/base/utf8.h"

namespace trainrun::cli {

namespace {

constexpr std::size_t most_shown = 16;

// "node12:8" -> "node"
std::string without_numbers(std::string_view word) {
  std::string out;
  for (const char c : word.substr(0, word.find(':'))) {
    if (c < '0' || c > '9') out += c;
  }
  return out;
}

std::string_view without_commas(std::string_view word) {
  while (word.starts_with(',')) word.remove_prefix(1);
  while (word.ends_with(',')) word.remove_suffix(1);
  return word;
}

bool is_host(std::string_view word) {
  return word.find('/') == std::string_view::npos && hosts::parse_host_item(word).has_value();
}

bool is_like(std::string_view word, std::string_view host) {
  if (!is_host(word)) return false;
  const bool has_number = word.find_first_of("0123456789") != std::string_view::npos;
  return has_number && without_numbers(word) == without_numbers(host);
}

bool is_program(const std::string& word, const Inputs& inputs) {
  return inputs.is_file(path_under(inputs.directory, word)) ||
         !search_path(word, variable(inputs.environment, "PATH"), inputs.directory, inputs).empty();
}

}  // namespace

Result<void> check_host_words(const ArgvPart& part, const Inputs& inputs) {
  if (part.settings.empty() || part.program.empty() || part.settings.back().option != Option::host) return {};
  const Setting& flag = part.settings.back();
  std::string list(without_commas(flag.value));
  const auto last = list.substr(list.rfind(',') + 1);
  bool joined = flag.value.ends_with(',');  // "a, b"
  std::size_t count = 0;
  for (const auto& word : part.program) {
    const auto name = without_commas(word);
    joined = joined || word.starts_with(',');
    const bool is_one = joined ? name.empty() || is_host(name) : is_like(name, last);
    if (!is_one || (count == 0 && is_program(word, inputs)) || ++count > most_shown) break;
    if (!name.empty()) list += "," + std::string(name);
    joined = word.ends_with(',');
  }
  if (count == 0) return {};
  return fail(Code::usage,
              fmt::format("{} {} {}: a space between two hosts", flag.origin, quoted(flag.value),
                          quoted(part.program.front())),
              count > most_shown ? "separate hosts with commas; for names with numbers: node[01-32]"
                                 : fmt::format("separate hosts with commas: {} {}", flag.origin,
                                               printable(shell_quote(list))));
}

}  // namespace trainrun::cli
