#include "cli/argv.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>

#include "cli/foreign_flags.h"
#include "cli/parse.h"
#include "cli/value.h"
#include "launcher/base/strings.h"

namespace trainrun::cli {

namespace {

using Words = std::span<const std::string>;

Result<GivenPart> parse_part(const CommandLine& line, Words words) {
  auto parsed = parse(line, words);
  if (!parsed) return tl::unexpected(parsed.error());
  const auto rest = words.subspan(parsed->used);
  return GivenPart{std::move(parsed->flags), {rest.begin(), rest.end()}};
}

bool has_program(const GivenPart& part) {
  return !part.program.empty() || (!part.flags.empty() && part.flags.back().flag->ends_flags);
}

Result<void> missing_program(bool after) {
  return fail(Code::usage, fmt::format("a program is missing {} ':'", after ? "after" : "before"),
              "a lone ':' stands between programs that share one world; a program that needs ':' as an "
              "argument can have it from `command = [...]` of a --config file");
}

bool is_tee(const LeftOut& left_out) {
  if (left_out.spelled == "PET_TEE") return true;  // torch_environment.h
  const auto* flag = find_flag(job_line(), left_out.spelled);
  return flag != nullptr && (flag->name == "--tee" || flag->name == "-t");
}

// Of one local rank: what `list` says of it, else of all.
Redirect of(const std::vector<Redirect>& list, std::int32_t local_rank) {
  Redirect found{.local_rank = local_rank};
  for (const auto& one : list) {
    if (one.local_rank != local_rank && one.local_rank != -1) continue;
    found.out = one.out;
    found.err = one.err;
    if (one.local_rank == local_rank) break;
  }
  return found;
}

std::vector<Redirect> without(const std::vector<Redirect>& hidden, const std::vector<Redirect>& shown) {
  std::set<std::int32_t> ranks{-1};
  for (const auto* list : {&hidden, &shown})
    for (const auto& one : *list) ranks.insert(one.local_rank);
  std::vector<Redirect> out;
  for (const auto rank : ranks) {
    const auto hides = of(hidden, rank), shows = of(shown, rank);
    out.push_back({rank, hides.out && !shows.out, hides.err && !shows.err});
  }
  return out;
}

// "3", or "3,0:0", which begins with what is so for all others.
std::string text_of(const std::vector<Redirect>& list) {
  std::string text;
  for (const auto& one : list) {
    const int streams = (one.out ? 1 : 0) + (one.err ? 2 : 0);
    text += one.local_rank < 0 ? fmt::format("{}", streams) : fmt::format(",{}:{}", one.local_rank, streams);
  }
  const bool none =
      std::none_of(list.begin(), list.end(), [](const auto& one) { return one.out || one.err; });
  return none ? "0" : text;
}

}  // namespace

Result<std::vector<GivenPart>> split_parts(const CommandLine& line, const std::vector<std::string>& words) {
  for (const auto& word : words) {
    if (word.find('\0') != std::string::npos)
      return fail(Code::usage, fmt::format("a word of the command line holds a NUL byte: {}", quoted(word)));
  }
  std::vector<GivenPart> parts;
  Words left(words);
  for (bool last = false; !last;) {
    const auto colon = std::find(left.begin(), left.end(), ":");
    last = colon == left.end();
    const auto length = static_cast<std::size_t>(colon - left.begin());
    auto part = parse_part(line, left.first(length));
    if (!part) return tl::unexpected(part.error());
    parts.push_back(std::move(*part));
    if (last) break;
    if (!has_program(parts.back())) return tl::unexpected(missing_program(false).error());
    left = left.subspan(length + 1);
    if (left.empty()) return tl::unexpected(missing_program(true).error());
  }
  return parts;
}

Result<void> take_flag(const Flag& flag, Given given, ArgvPart& part) {
  if (const auto option = option_of(flag)) {
    part.settings.push_back({*option, std::move(given.value), std::move(given.spelled)});
    return {};
  }
  if (const auto ours = meant_by(flag, given.value)) {
    part.settings.push_back({ours->first, std::string(ours->second), std::move(given.spelled)});
    return {};
  }
  if (flag.name == "--allow-run-as-root") return {};  // on each run: it would be noise
  const auto why = why_needless(flag, given.value);
  if (why.empty())
    return fail(Code::usage, fmt::format("{} {} is not supported", given.spelled, quoted(given.value)),
                hint_for_unknown_flag(given.spelled));
  // Inside an allocation of Slurm this host alone must be asked for.
  if (flag.name == "--standalone") part.settings.push_back({Option::hosts_from, "none", given.spelled});
  part.left_out.push_back({std::move(given.spelled), why, std::move(given.value)});
  return {};
}

// As torchrun does: what a rank tees is shown, whatever it redirects.
void show_what_is_teed(ArgvPart& part) {
  const auto tee = std::find_if(part.left_out.rbegin(), part.left_out.rend(), is_tee);
  if (tee == part.left_out.rend()) return;
  const auto shown = parse_redirects(tee->value);
  if (!shown) return;
  for (auto& setting : part.settings) {
    if (setting.option != Option::redirects) continue;
    if (const auto hidden = parse_redirects(setting.value)) setting.value = text_of(without(*hidden, *shown));
  }
  std::erase_if(part.settings,
                [](const Setting& it) { return it.option == Option::redirects && it.value == "0"; });
}

Result<std::vector<ArgvPart>> split_argv(const std::vector<std::string>& words) {
  auto given = split_parts(job_line(), words);
  if (!given) return tl::unexpected(given.error());
  std::vector<ArgvPart> parts;
  for (auto& one : *given) {
    auto& part = parts.emplace_back();
    for (auto& flag : one.flags) {
      const Flag& known = *flag.flag;
      if (auto ok = take_flag(known, std::move(flag), part); !ok) return tl::unexpected(ok.error());
    }
    show_what_is_teed(part);
    part.program = std::move(one.program);
  }
  return parts;
}

}  // namespace trainrun::cli
