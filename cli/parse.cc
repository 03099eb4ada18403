#include "cli/parse.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "cli/walk.h"
#include "launcher/base/strings.h"

namespace trainrun::cli {

namespace {

// CLI11's own help, environment and files are left alone: what they do is ours (usage, environment,
// config_file), since the order of precedence is.
class Reader {
 public:
  Reader(const CommandLine& line, const Walked& walked) : line_(line) {
    app_.set_help_flag();
    app_.allow_extras();
    // Only what is on this line: CLI11 compares each new name with all others, a third of a millisecond for
    // all.
    for (const auto& flag : line.flags) {
      if (std::none_of(walked.found.begin(), walked.found.end(),
                       [&](const auto& found) { return found.flag == &flag; }))
        continue;
      const std::string name(flag.name);
      auto* option = flag.takes == Takes::nothing ? app_.add_flag(name) : app_.add_option(name);
      // Without the first, the brackets of [fd00::1] and [a,b] make a list of their value.
      option->allow_extra_args(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
      flags_.emplace(option, Seen{&flag});
    }
  }

  Result<Parsed> read(Walked walked) {
    app_.parse(
        std::vector<std::string>(walked.words.rbegin(), walked.words.rend()));  // it takes the last first
    Parsed out{.words = app_.remaining(), .used = walked.used};
    if (out.words.size() > line_.words)
      return fail(
          Code::usage,
          fmt::format("{}{} is one word too many", line_.prefix, trainrun::quoted(out.words[line_.words])),
          std::string(line_.usage));
    auto found = walked.found.begin();
    for (const auto* option : app_.parse_order()) {
      auto& [flag, count] = flags_.at(option);
      out.flags.push_back({flag, std::move((found++)->spelled), option->results().at(count++)});
    }
    return out;
  }

 private:
  struct Seen {
    const Flag* flag;
    std::size_t count = 0;  // of its values that were taken from CLI11
  };
  const CommandLine& line_;
  CLI::App app_;
  std::map<const CLI::Option*, Seen> flags_;
};

}  // namespace

bool asks_for_help(const Parsed& parsed) {
  return std::any_of(parsed.flags.begin(), parsed.flags.end(),
                     [](const Given& given) { return given.flag->name == "--help"; });
}

Result<Parsed> parse(const CommandLine& line, std::span<const std::string> given) {
  auto walked = walk(line, given);
  if (!walked) return tl::unexpected(walked.error());
  try {
    return Reader(line, *walked).read(std::move(*walked));
  } catch (const CLI::Error& error) {  // the walk has refused all that could be wrong
    return fail(Code::internal, fmt::format("{}the command line: {}", line.prefix, error.what()));
  }
}

}  // namespace trainrun::cli
