#include "launcher/control/protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "host-discovery/host_grammar.h"
#include "launcher/base/exit_code.h"
#include "launcher/base/strings.h"
#include "launcher/control/reply_fields.h"

namespace trainrun::control {
namespace {

using Json = nlohmann::ordered_json;
using Kind = Command::Kind;

struct Verb {
  std::string_view name;
  Kind kind;
  std::string_view argument;  // the one other key of the request; empty: none
  bool may_force = false;     // "force":true may be there
};

constexpr std::string_view version_verb = "version";
constexpr Verb verbs[] = {
    {"world", Kind::world, ""},
    {"remove-host", Kind::remove_host, "host", true},
    {"add-host", Kind::add_host, "host"},
    {"restart", Kind::restart_world, "", true},
    {"restart-worker", Kind::restart_worker, "rank"},
    {"stop-worker", Kind::stop_worker, "rank", true},
    {"end", Kind::end, ""},
};

std::vector<std::string> known_verbs() {
  std::vector<std::string> names;
  for (const auto& verb : verbs) names.emplace_back(verb.name);
  names.emplace_back(version_verb);
  return names;
}

tl::unexpected<Error> bad(std::string message, std::string hint = {}) {
  return fail(Code::usage, std::move(message), std::move(hint));
}

// An object without repeated keys at its top, which the parser alone would let pass.
Result<Json> parse_object(std::string_view line) {
  if (line.size() > longest_request)
    return bad(fmt::format("a request has at most {} bytes", longest_request));
  std::set<std::string> keys;
  bool repeated = false;
  const Json::parser_callback_t watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::key && depth == 1)
      repeated |= !keys.insert(parsed.get_ref<const std::string&>()).second;
    return true;
  };
  auto json = Json::parse(line, watch, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object())
    return bad("a request is one JSON object a line", R"({"do":"world"})");
  if (repeated) return bad("a key of the request is there twice");
  return json;
}

Result<void> check_keys(const Json& request, const Verb& verb) {
  for (const auto& [key, value] : request.items()) {
    if (key == "do" || (key == verb.argument && !verb.argument.empty())) continue;
    if (key == "force" && verb.may_force) continue;
    return bad(fmt::format("{} has no {}", verb.name, trainrun::quoted(key)),
               verb.argument.empty() ? "it takes no other key than do"
                                     : fmt::format("it takes do and {}", verb.argument));
  }
  if (!verb.argument.empty() && !request.contains(verb.argument))
    return bad(fmt::format("{} needs a {}", verb.name, verb.argument));
  return {};
}

Result<Command> parse_command(const Json& request, const Verb& verb) {
  if (const auto ok = check_keys(request, verb); !ok) return tl::unexpected(ok.error());
  Command command{.kind = verb.kind};
  if (verb.argument == "rank") {
    const auto& rank = request.at("rank");
    if (!rank.is_number_unsigned() ||
        rank.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<int>::max()))
      return bad("rank is a number from 0");
    command.rank = rank.get<int>();
  } else if (verb.argument == "host") {
    const auto& host = request.at("host");
    if (!host.is_string()) return bad("host is a string");
    const auto& text = host.get_ref<const std::string&>();
    auto parsed = verb.kind == Kind::add_host ? parse_host(text) : parse_leaving_host(text);
    if (!parsed) return tl::unexpected(parsed.error());
    command.host = std::move(*parsed);
  }
  if (const auto force = request.find("force"); force != request.end()) {
    if (!force->is_boolean()) return bad("force is true or false");
    command.force = force->get<bool>();
  }
  return command;
}

std::string host_text(const Host& host) {
  const bool v6 = host.name.find(':') != std::string::npos;
  std::string text = v6 ? fmt::format("[{}]", host.name) : host.name;
  if (!host.user.empty()) text = fmt::format("{}@{}", host.user, text);
  if (host.port != 0) return fmt::format("ssh://{}:{}", text, host.port);
  if (host.slots_given) text += fmt::format(":{}", host.slots);
  return text;
}

std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Code code_of(std::string_view text) {
  for (int i = 0; i <= static_cast<int>(Code::internal); ++i) {
    if (to_string(static_cast<Code>(i)) == text) return static_cast<Code>(i);
  }
  return Code::internal;
}

}  // namespace

Result<Host> parse_host(std::string_view text) {
  auto hosts = hosts::parse_host_item(text);
  if (!hosts) return bad(hosts.error().message, hosts.error().hint);
  if (hosts->size() != 1)
    return bad(fmt::format("{} is not one host", trainrun::quoted(text)), "name them one by one");
  return std::move(hosts->front());
}

Result<Host> parse_leaving_host(std::string_view text) {
  auto host = parse_host(text);
  if (!host) return host;
  if (host->slots_given || !host->user.empty() || host->port != 0)
    return bad(fmt::format("{} is more than a name", trainrun::quoted(text)),
               fmt::format("a host leaves as a whole: write {}", host->name));
  return host;
}

Result<Request> parse_request(std::string_view line) {
  const auto request = parse_object(line);
  if (!request) return tl::unexpected(request.error());
  const auto wanted = request->find("do");
  const auto known = fmt::format("known: {}", fmt::join(known_verbs(), ", "));
  if (wanted == request->end() || !wanted->is_string())
    return bad("the request does not say what to do", known);
  const auto& name = wanted->get_ref<const std::string&>();
  if (name == version_verb) {
    if (const auto ok = check_keys(*request, {version_verb, {}, ""}); !ok) return tl::unexpected(ok.error());
    return VersionQuestion{};
  }
  const auto* verb =
      std::find_if(std::begin(verbs), std::end(verbs), [&](const Verb& row) { return row.name == name; });
  if (verb == std::end(verbs))
    return bad(fmt::format("this launcher has no command {}", trainrun::quoted(name)), known);
  auto command = parse_command(*request, *verb);
  if (!command) return tl::unexpected(command.error());
  return std::move(*command);
}

std::string to_line(const Request& request) {
  const auto* command = std::get_if<Command>(&request);
  if (command == nullptr) return dumped({{"do", version_verb}});
  const auto* verb = std::find_if(std::begin(verbs), std::end(verbs),
                                  [&](const Verb& row) { return row.kind == command->kind; });
  Json json{{"do", verb->name}};
  if (verb->argument == "rank") json["rank"] = command->rank;
  if (verb->argument == "host") json["host"] = host_text(command->host);
  if (command->force) json["force"] = true;
  return dumped(json);
}

std::string ok_reply(std::string_view text) {
  Json json{{"ok", true}};
  if (!text.empty()) json["text"] = text;
  return dumped(json);
}

std::string error_reply(const Error& error, std::optional<int> schema) {
  Json json{{"ok", false},
            {"code", to_string(error.code)},
            {"exit_code", to_int(exit_code_of(error.code))},
            {"error", error.message}};
  if (schema) json["schema"] = *schema;
  if (!error.hint.empty()) json["try"] = error.hint;
  return dumped(json);
}

Result<Json> parse_reply(std::string_view line) {
  auto json = line.size() > longest_reply ? Json(Json::value_t::discarded)
                                          : Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object() || !json.contains("ok") || !json["ok"].is_boolean())
    return fail(Code::protocol, fmt::format("the launcher's answer is none: {}", trainrun::quoted(line)));
  if (json["ok"].get<bool>()) return json;
  const auto message = text_of(json, "error");
  return fail(code_of(text_of(json, "code")), message.empty() ? "the launcher refused" : message,
              text_of(json, "try"));
}

Result<std::string> read_reply(std::string_view line) {
  const auto json = parse_reply(line);
  if (!json) return tl::unexpected(json.error());
  return text_of(*json, "text");
}

std::string to_json(const Identity& identity) {
  return dumped({{"ok", true},
                 {"version", identity.version},
                 {"job", identity.job},
                 {"pid", identity.pid},
                 {"started", identity.started},
                 {"command", identity.command}});
}

Result<Identity> read_identity(std::string_view reply) {
  const auto json = parse_reply(reply);
  if (!json) return tl::unexpected(json.error());
  return Identity{.version = text_of(*json, "version"),
                  .job = text_of(*json, "job"),
                  .pid = number_of<std::int64_t>(*json, "pid"),
                  .started = number_of<std::int64_t>(*json, "started"),
                  .command = text_of(*json, "command")};
}

}  // namespace trainrun::control
