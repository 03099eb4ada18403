#include "cli/mpi_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "cli/mpi_line.h"
#include "cli/program.h"
#include "launcher/base/strings.h"

namespace trainrun::cli {
namespace {

bool is_file_of_programs(const Given& given) {
  const auto& name = given.flag->name;
  return name == "--app" || name == "--configfile";
}

// At blanks, but for those in quotes; up to a # that begins a word. Nothing: a quote is left open.
std::optional<std::vector<std::string>> words_of(std::string_view line) {
  std::vector<std::string> words;
  bool within = false;
  char quote = 0;
  for (const char c : line) {
    if (quote == 0 && (c == ' ' || c == '\t' || c == '\r')) {
      within = false;
      continue;
    }
    if (!within && c == '#') break;
    if (!within) words.emplace_back();
    within = true;
    if (quote == 0 && (c == '"' || c == '\''))
      quote = c;
    else if (c == quote)
      quote = 0;
    else
      words.back() += c;
  }
  if (quote != 0) return std::nullopt;
  return words;
}

// Their number, and what they say: a line that ends with a backslash goes on in the next.
std::vector<std::pair<std::size_t, std::string>> lines_of(const std::string& text) {
  std::vector<std::pair<std::size_t, std::string>> lines;
  std::size_t number = 0;
  bool goes_on = false;
  for (auto line : split(text, '\n')) {
    ++number;
    line = trim(line);
    if (!goes_on && (line.empty() || line.starts_with('#'))) continue;
    if (!goes_on) lines.emplace_back(number, "");
    goes_on = line.ends_with('\\');
    if (goes_on) line.remove_suffix(1);
    lines.back().second += std::string(line) + " ";
  }
  return lines;
}

Result<std::vector<GivenPart>> parts_in(const std::string& path, const Inputs& inputs) {
  const auto text = inputs.read_file(absolute_path(path, inputs));
  if (!text) return tl::unexpected(text.error());
  std::vector<GivenPart> all;
  for (const auto& [number, line] : lines_of(*text)) {
    const auto words = words_of(line);
    if (!words) return fail(Code::usage, fmt::format("{}:{}: a quote is not closed", path, number));
    auto parts = split_parts(mpi_line(), *words);
    if (!parts)
      return fail(Code::usage, fmt::format("{}:{}: {}", path, number, parts.error().message),
                  parts.error().hint);
    for (auto& part : *parts) {
      if (std::any_of(part.flags.begin(), part.flags.end(), is_file_of_programs))
        return fail(Code::usage, fmt::format("{}:{}: a file of programs in a file of programs", path, number),
                    "write its lines here");
      all.push_back(std::move(part));
    }
  }
  if (all.empty())
    return fail(Code::usage, fmt::format("{} names no program", quoted(path, 300)),
                "write a line for each, as in -np 2 ./program");
  return all;
}

}  // namespace

Result<std::vector<GivenPart>> with_files(std::vector<GivenPart> given, const Inputs& inputs) {
  std::vector<GivenPart> all;
  for (auto& part : given) {
    const auto file = std::find_if(part.flags.begin(), part.flags.end(), is_file_of_programs);
    if (file == part.flags.end()) {
      all.push_back(std::move(part));
      continue;
    }
    const auto other = std::find_if(std::next(file), part.flags.end(), is_file_of_programs);
    if (other != part.flags.end())
      return fail(Code::usage,
                  fmt::format("{} is there twice: {} and {}", other->spelled, quoted(file->value, 80),
                              quoted(other->value, 80)),
                  "write a ':' between them");
    if (!part.program.empty())
      return fail(Code::usage,
                  fmt::format("{} names the programs, and {} is one beside it", file->spelled,
                              quoted(part.program.front(), 80)),
                  "write it into the file, or behind a ':'");
    auto parts = parts_in(file->value, inputs);
    if (!parts) return tl::unexpected(parts.error());
    part.flags.erase(file);
    auto& flags = parts->front().flags;
    flags.insert(flags.begin(), std::make_move_iterator(part.flags.begin()),
                 std::make_move_iterator(part.flags.end()));
    std::move(parts->begin(), parts->end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace trainrun::cli
