// Fields of a reply, read leniently: what is not there, or of another kind, is empty or 0, since a
// launcher of another version may say less. Only for .cc files that know the JSON library.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "launcher/base/error.h"

namespace trainrun::control {

// The object of a good reply, else the error it holds, or Code::protocol.
Result<nlohmann::ordered_json> parse_reply(std::string_view line);

inline std::string text_of(const nlohmann::ordered_json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

template <class Number>
Number number_of(const nlohmann::ordered_json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number_integer() ? found->get<Number>() : Number{};
}

}  // namespace trainrun::control
