#include "cli/ctl_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "launcher/base/strings.h"

namespace trainrun::cli {
namespace {

using Kind = control::Command::Kind;

struct Verb {
  std::string_view name, argument, help;
};

constexpr Verb verbs[] = {
    {"world", "", "who is where: generation, phase, ranks, hosts"},
    {"add", "HOST[:SLOTS]", "a host more, written as for -H"},
    {"remove", "HOST", "its workers are told, then the job goes on without it"},
    {"restart", "[RANK]", "a new generation of all workers, or one worker"},
    {"stop", "RANK", "one worker, and give its slot up"},
    {"end", "", "the job, as SIGTERM to the launcher would"},
    {"list", "", "the jobs that can be asked"},
};

tl::unexpected<Error> wrong(std::string message, std::string hint = "trainrun ctl --help") {
  return fail(Code::usage, std::move(message), std::move(hint));
}

std::vector<std::string> names_of_verbs() {
  std::vector<std::string> names;
  for (const auto& verb : verbs) names.emplace_back(verb.name);
  return names;
}

// "--job=ID" and "-job ID" are one: flags may have one dash or two, as everywhere.
Result<void> take_flag(CtlWords& out, const std::vector<std::string>& words, std::size_t& at) {
  const std::string_view word = words[at];
  const auto equals = word.find('=');
  auto name = word.substr(0, equals);
  name.remove_prefix(name.starts_with("--") ? 2 : 1);
  const bool has_value = equals != std::string_view::npos;
  if (name == "job") {
    if (!has_value && at + 1 == words.size()) return wrong("--job needs a job's id", "trainrun ctl list");
    out.job = has_value ? std::string(word.substr(equals + 1)) : words[++at];
    if (out.job.empty() || out.job.size() > 64 ||
        out.job.find_first_not_of("0123456789abcdef") != std::string::npos)
      return wrong(fmt::format("--job {}: an id is made of the digits 0-9 and a-f", quoted(out.job)),
                   "trainrun ctl list");
    return {};
  }
  if (has_value) return wrong(fmt::format("trainrun ctl has no flag {}", quoted(word)));
  if (name == "json") {
    out.json = true;
  } else if (name == "force") {
    out.command.force = true;
  } else if (name == "help" || word == "-h") {
    out.action = CtlWords::Action::help;
  } else {
    const auto near = nearest(fmt::format("--{}", name), {"--job", "--json", "--force", "--help"});
    return wrong(fmt::format("trainrun ctl has no flag {}", quoted(word)),
                 near ? fmt::format("did you mean {}?", *near) : "trainrun ctl --help");
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
  CtlWords out;
  out.action = CtlWords::Action::ask;
  std::vector<std::string> rest;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].size() < 2 || words[i].front() != '-') {
      rest.push_back(words[i]);
      continue;
    }
    if (const auto ok = take_flag(out, words, i); !ok) return tl::unexpected(ok.error());
    if (out.action == CtlWords::Action::help) return CtlWords{};
  }
  if (rest.empty())
    return wrong("trainrun ctl needs a command", fmt::format("one of {}", fmt::join(names_of_verbs(), ", ")));
  const auto name = rest.front();
  rest.erase(rest.begin());
  const auto* verb =
      std::find_if(std::begin(verbs), std::end(verbs), [&](const Verb& row) { return row.name == name; });
  if (verb == std::end(verbs)) {
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
    if (out.command.force) return wrong("--force goes with remove and stop, not with list");
    if (!out.job.empty()) return wrong("list shows every job: --job does not go with it");
    out.action = CtlWords::Action::list;
    return out;
  }
  auto command = command_of(name, rest);
  if (!command) return tl::unexpected(command.error());
  command->force = out.command.force;
  if (command->force && command->kind != Kind::remove_host && command->kind != Kind::stop_worker)
    return wrong(fmt::format("--force goes with remove and stop, not with {}", name));
  out.command = std::move(*command);
  return out;
}

std::string ctl_help() {
  std::string out =
      "usage: trainrun ctl [--job ID] [--json] COMMAND\n\n"
      "Shows or changes a job that runs on this host, by asking its trainrun.\n\n";
  for (const auto& verb : verbs)
    out += fmt::format("  {:<22}{}\n", fmt::format("{} {}", verb.name, verb.argument), verb.help);
  out +=
      "\n  --job ID              the job, by its id or a beginning of it: see list\n"
      "  --json                the launcher's answer as it is\n"
      "  --force               remove and stop: even below --min-np\n"
      "  --help                this text\n\n"
      "man trainrun-ctl\n";
  return out;
}

}  // namespace trainrun::cli
