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

bool is_like(std::string_view word, std::string_view host) {
  if (word.find('/') != std::string_view::npos || !hosts::parse_host_item(word)) return false;
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
  const auto last = std::string_view(flag.value).substr(flag.value.rfind(',') + 1);
  if (!is_like(part.program.front(), last) || is_program(part.program.front(), inputs)) return {};
  std::string list = flag.value;
  std::size_t count = 0;
  for (const auto& word : part.program) {
    if (!is_like(word, last) || ++count > most_shown) break;
    list += "," + word;
  }
  return fail(Code::usage,
              fmt::format("{} {} {}: a blank between two hosts", flag.origin, quoted(flag.value),
                          quoted(part.program.front())),
              count > most_shown ? "commas stand between hosts; for names with numbers: node[01-32]"
                                 : fmt::format("commas stand between hosts: {} {}", flag.origin,
                                               printable(shell_quote(list))));
}

}  // namespace trainrun::cli
