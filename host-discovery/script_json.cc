#include "host-discovery/script_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "host-discovery/host_grammar.h"
#include "launcher/base/strings.h"

namespace trainrun::hosts {

Result<std::vector<std::string>> words_of_json(std::string_view line) {
  constexpr std::string_view hint = R"(write one object a line, as in {"host": "gpu1", "slots": 8})";
  const auto bad = [&](std::string message) {
    return fail(Code::config, std::move(message), std::string(hint));
  };
  const auto object = nlohmann::json::parse(line, nullptr, false);  // no exception
  if (!object.is_object()) return bad(fmt::format("{} is no JSON object", quoted(line)));
  const auto find = [&](const char* key) {
    const auto found = object.find(key);
    return found == object.end() || found->is_null() ? nullptr : &*found;
  };

  const auto* host = find("host");
  if (host == nullptr || !host->is_string()) return bad(fmt::format("{} has no \"host\"", quoted(line)));
  const auto& name = host->get_ref<const std::string&>();
  std::vector<std::string> words{is_ipv6(name) ? "[" + name + "]" : name};
  for (const char* key : {"slots", "gpus", "port"}) {
    const auto* value = find(key);
    if (value == nullptr) continue;
    if (!value->is_number_unsigned()) return bad(fmt::format("\"{}\" is no whole number", key));
    words.push_back(fmt::format("{}={}", key, value->get<std::uint64_t>()));
  }
  for (const char* key : {"user", "identity"}) {
    const auto* value = find(key);
    if (value == nullptr) continue;
    if (!value->is_string()) return bad(fmt::format("\"{}\" is no text", key));
    words.push_back(fmt::format("{}={}", key, value->get_ref<const std::string&>()));
  }
  return words;
}

}  // namespace trainrun::hosts
