#include "cli/rendezvous_words.h"

#include <fmt/format.h>

#include "cli/parse.h"
#include "cli/subcommands.h"
#include "launcher/base/strings.h"
#include "launcher/base/time.h"
#include "rendezvous/protocol.h"

namespace trainrun::cli {

namespace {

using rendezvous::StandaloneOptions;

tl::unexpected<Error> wrong(const std::string& message, std::string hint = "trainrun rendezvous --help") {
  return fail(Code::usage, fmt::format("{}{}", rendezvous_line().prefix, message), std::move(hint));
}

Result<void> set(StandaloneOptions& options, const std::string_view name, const std::string& value) {
  if (name == "--np") {
    options.np = parse_unsigned<std::uint32_t>(value).value_or(0);
    if (options.np == 0 || options.np > rendezvous::max_world)
      return wrong(fmt::format("--np {}: expected 1 to {}", quoted(value), rendezvous::max_world));
  } else if (name == "--bind") {
    options.bind = value;
  } else if (name == "--key-file") {
    if (value.empty()) return wrong("--key-file is empty", "leave it out, and a key file is made");
    options.key_file = value;
  } else {
    options.timeout = parse_duration(value);
    if (!options.timeout || *options.timeout <= Duration::zero())
      return wrong(fmt::format("--timeout: {} is not a time above zero", quoted(value)),
                   "write seconds, or 250ms, 90s, 5m, 2h, 1:30:00");
  }
  return {};
}

}  // namespace

Result<std::optional<StandaloneOptions>> parse_rendezvous(const std::vector<std::string>& words) {
  const auto parsed = parse(rendezvous_line(), words);
  if (!parsed) return tl::unexpected(parsed.error());
  if (asks_for_help(*parsed)) return std::nullopt;
  StandaloneOptions options;
  for (const auto& given : parsed->flags) {
    if (const auto taken = set(options, given.flag->name, given.value); !taken)
      return tl::unexpected(taken.error());
  }
  if (options.np == 0) return wrong("--np is missing: how many members are there?");
  return options;
}

}  // namespace trainrun::cli
