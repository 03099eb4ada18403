#include "cli/replay.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "cli/parse.h"
#include "cli/subcommands.h"
#include "launcher/base/build_id.h"
#include "launcher/base/exit_code.h"
#include "launcher/base/fd.h"
#include "launcher/base/strings.h"
#include "launcher/core/replay.h"
#include "launcher/output/our_lines.h"
#include "launcher/output/replay_text.h"

namespace trainrun::cli {
namespace {

namespace journal = core::journal;
using output::print_line;

constexpr std::size_t largest_file = std::size_t{1} << 30;

void print_lines(const std::vector<std::string>& lines) {
  for (const auto& line : lines) print_line(stdout, line);
}

std::string how_it_ends(const std::optional<journal::End>& end, bool torn) {
  if (!end) return torn ? "; then it breaks off" : "; it has no end: the launcher was killed, or still runs";
  return end->why == journal::End::Why::too_slow ? "; the file was too slow for the rest" : "";
}

// Gives the exit code.
Result<int> replay_one(const std::string& bytes, const std::string& path, bool quiet) {
  auto reader = journal::Reader::open(bytes);
  if (!reader) return tl::unexpected(reader.error());
  const auto& header = reader->header();
  auto replay = core::Replay::of(header);
  if (!replay) return tl::unexpected(replay.error());
  const auto head = output::journal_head(header, build_id());
  if (!quiet) print_lines(head);
  std::uint64_t number = 0;
  std::optional<journal::End> end;
  while (!end) {
    const auto entry = reader->next();
    if (!entry) return tl::unexpected(entry.error());
    if (!*entry) break;
    if (const auto* ends = std::get_if<journal::End>(&**entry)) {
      end = *ends;
      continue;
    }
    const auto& step = std::get<journal::Step>(**entry);
    ++number;
    const auto decided = replay->step(step);
    if (!decided) return tl::unexpected(decided.error());
    const auto lines = output::step_lines(number, step, decided->actions, header.began);
    if (decided->as_then) {
      if (!quiet) print_lines(lines);
      continue;
    }
    if (quiet) print_lines(head);
    print_lines(lines);
    print_line(stdout, fmt::format("{}: record {} differs: the launcher decided otherwise than this build",
                                   path, number));
    return to_int(ExitCode::differs);
  }
  if (!quiet)
    print_line(stdout, fmt::format("{}: {} record{}, all decided as then{}", path, number,
                                   number == 1 ? "" : "s", how_it_ends(end, reader->torn())));
  return 0;
}

}  // namespace

int replay_main(const std::vector<std::string>& words) {
  const auto parsed = parse(replay_line(), words);
  if (!parsed) return output::print_error(parsed.error());
  const bool help = asks_for_help(*parsed);
  if (help) std::fputs(replay_help().c_str(), stdout);
  if (!help && parsed->words.empty())
    return output::print_error({Code::usage, "replay: which journal?", "trainrun replay --help"});
  int code = 0;
  for (const auto& path : help ? std::vector<std::string>{} : parsed->words) {
    const auto bytes = read_file(path, largest_file);
    auto found = bytes ? replay_one(*bytes, path, !parsed->flags.empty()) : tl::unexpected(bytes.error());
    if (!found) {
      if (bytes) found.error().message = fmt::format("{}: {}", quoted(path, 300), found.error().message);
      found = output::print_error(found.error());
    }
    if (code == 0 || code == to_int(ExitCode::differs)) code = *found != 0 ? *found : code;
  }
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  output::print_error({Code::internal, "stdout cannot be written to: " + errno_text(errno)});
  return to_int(ExitCode::output_lost);
}

}  // namespace trainrun::cli
