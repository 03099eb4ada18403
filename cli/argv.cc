#include "cli/argv.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "cli/foreign_flags.h"
#include "cli/parse.h"
#include "launcher/base/strings.h"

namespace trainrun::cli {

namespace {

using Words = std::span<const std::string>;

Result<ArgvPart> parse_part(Words words) {
  auto parsed = parse(job_line(), words);
  if (!parsed) return tl::unexpected(parsed.error());
  ArgvPart part;
  for (auto& given : parsed->flags) {
    if (const auto option = option_of(*given.flag)) {
      part.settings.push_back({*option, std::move(given.value), std::move(given.spelled)});
      continue;
    }
    const auto why = why_needless(*given.flag, given.value);
    if (why.empty())
      return fail(Code::usage, fmt::format("unknown flag {}", quoted(given.spelled)),
                  hint_for_unknown_flag(given.spelled));
    // Inside an allocation of Slurm this host alone must be asked for.
    if (given.flag->name == "--standalone")
      part.settings.push_back({Option::hosts_from, "none", given.spelled});
    part.left_out.push_back({std::move(given.spelled), why});
  }
  const auto rest = words.subspan(parsed->used);
  part.program.assign(rest.begin(), rest.end());
  return part;
}

bool has_program(const ArgvPart& part) {
  return !part.program.empty() ||
         (!part.settings.empty() && part.settings.back().option == Option::module);  // which ends the flags
}

Result<void> missing_program(bool after) {
  return fail(Code::usage, fmt::format("a program is missing {} ':'", after ? "after" : "before"),
              "a lone ':' stands between programs that share one world; a program that needs ':' as an "
              "argument can have it from `command = [...]` of a --config file");
}

}  // namespace

Result<std::vector<ArgvPart>> split_argv(const std::vector<std::string>& words) {
  for (const auto& word : words) {
    if (word.find('\0') != std::string::npos)
      return fail(Code::usage, fmt::format("a word of the command line holds a NUL byte: {}", quoted(word)));
  }
  std::vector<ArgvPart> parts;
  Words left(words);
  for (bool last = false; !last;) {
    const auto colon = std::find(left.begin(), left.end(), ":");
    last = colon == left.end();
    const auto length = static_cast<std::size_t>(colon - left.begin());
    auto part = parse_part(left.first(length));
    if (!part) return tl::unexpected(part.error());
    parts.push_back(std::move(*part));
    if (last) break;
    if (!has_program(parts.back())) return tl::unexpected(missing_program(false).error());
    left = left.subspan(length + 1);
    if (left.empty()) return tl::unexpected(missing_program(true).error());
  }
  return parts;
}

}  // namespace trainrun::cli
