#include "cli/ctl_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "cli/parse.h"
#include "cli/subcommands.h"
#include "launcher/base/strings.h"

namespace trainrun::cli {
namespace {

using Kind = control::Command::Kind;

tl::unexpected<Error> wrong(std::string message, std::string hint = "trainrun ctl --help") {
  return fail(Code::usage, std::move(message), std::move(hint));
}

std::vector<std::string> names_of_verbs() {
  std::vector<std::string> names;
  for (const auto& verb : ctl_verbs()) names.emplace_back(verb.name);
  return names;
}

Result<void> take_flag(CtlWords& out, const Given& given) {
  if (given.flag->name == "--json") {
    out.json = true;
  } else if (given.flag->name == "--force") {
    out.command.force = true;
  } else {
    out.job = given.value;
    if (out.job.empty() || out.job.size() > 64 ||
        out.job.find_first_not_of("0123456789abcdef") != std::string::npos)
      return wrong(fmt::format("--job {}: an id is made of the digits 0-9 and a-f", quoted(out.job)),
                   "trainrun ctl list");
  }
  return {};
}

Result<int> parse_rank(const std::string& text) {
  const auto rank = parse_unsigned<std::uint32_t>(text);
  if (!rank || *rank > static_cast<std::uint32_t>(std::numeric_limits<int>::max()))
    return wrong(fmt::format("{} is not a rank", quoted(text)),
                 "ranks are numbers from 0: trainrun ctl world");
  return static_cast<int>(*rank);
}

Result<control::Command> command_of(const std::string& verb, const std::vector<std::string>& arguments) {
  control::Command command;
  if (verb == "world" || verb == "end") {
    command.kind = verb == "end" ? Kind::end : Kind::world;
  } else if (verb == "add" || verb == "remove") {
    command.kind = verb == "add" ? Kind::add_host : Kind::remove_host;
    auto host = verb == "add" ? control::parse_host(arguments.front())
                              : control::parse_leaving_host(arguments.front());
    if (!host) return tl::unexpected(host.error());
    command.host = std::move(*host);
  } else if (arguments.empty()) {
    command.kind = Kind::restart_world;
  } else {
    command.kind = verb == "stop" ? Kind::stop_worker : Kind::restart_worker;
    const auto rank = parse_rank(arguments.front());
    if (!rank) return tl::unexpected(rank.error());
    command.rank = *rank;
  }
  return command;
}

}  // namespace

Result<CtlWords> parse_ctl(const std::vector<std::string>& words) {
  auto parsed = parse(ctl_line(), words);
  if (!parsed) return tl::unexpected(parsed.error());
  if (asks_for_help(*parsed)) return CtlWords{};
  CtlWords out;
  out.action = CtlWords::Action::ask;
  for (const auto& given : parsed->flags) {
    if (const auto ok = take_flag(out, given); !ok) return tl::unexpected(ok.error());
  }
  auto& rest = parsed->words;
  if (rest.empty())
    return wrong("trainrun ctl needs a command", fmt::format("one of {}", fmt::join(names_of_verbs(), ", ")));
  const auto name = rest.front();
  rest.erase(rest.begin());
  const auto verbs = ctl_verbs();
  const auto verb =
      std::find_if(verbs.begin(), verbs.end(), [&](const Verb& row) { return row.name == name; });
  if (verb == verbs.end()) {
    const auto near = nearest(name, names_of_verbs());
    return wrong(fmt::format("trainrun ctl has no command {}", quoted(name)),
                 near ? fmt::format("did you mean {}?", *near)
                      : fmt::format("one of {}", fmt::join(names_of_verbs(), ", ")));
  }
  const std::size_t most = verb->argument.empty() ? 0 : 1;
  const std::size_t least = verb->argument.starts_with('[') ? 0 : most;
  if (rest.size() > most) return wrong(fmt::format("{} is one word too many", quoted(rest[most])));
  if (rest.size() < least) return wrong(fmt::format("{} needs {}", name, verb->argument));
  if (name == "list") {
    if (out.command.force) return wrong("--force goes with remove, stop and restart, not with list");
    if (!out.job.empty()) return wrong("list shows every job: --job does not go with it");
    out.action = CtlWords::Action::list;
    return out;
  }
  auto command = command_of(name, rest);
  if (!command) return tl::unexpected(command.error());
  command->force = out.command.force;
  if (command->force && command->kind != Kind::remove_host && command->kind != Kind::stop_worker &&
      command->kind != Kind::restart_world)
    return wrong(fmt::format("--force goes with remove, stop and restart, not with {}", name));
  out.command = std::move(*command);
  return out;
}

}  // namespace trainrun::cli
