#include "launcher/output/recorded_error.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "launcher/base/strings.h"
#include "launcher/output/last_words.h"

namespace trainrun::output {
namespace {

using Json = nlohmann::json;

constexpr int deepest = 8;  // the forms need three levels
constexpr std::size_t most_lines = 3;

std::string_view text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return {};
  return found->get_ref<const std::string&>();
}

bool is_of_a_library(std::string_view file) {
  return file.find("/site-packages/") != std::string_view::npos ||
         file.find("/dist-packages/") != std::string_view::npos ||
         file.find("/lib/python3") != std::string_view::npos || file.starts_with("<");
}

// `  File "train.py", line 12, in step`
std::optional<std::string> frame(std::string_view line, bool& of_a_library) {
  constexpr std::string_view head = "File \"", middle = "\", line ", tail = ", in ";
  line = trim(line);
  if (!line.starts_with(head)) return std::nullopt;
  line.remove_prefix(head.size());
  const auto quote = line.find(middle);
  if (quote == std::string_view::npos) return std::nullopt;
  const auto file = line.substr(0, quote), rest = line.substr(quote + middle.size());
  const auto comma = rest.find(tail);
  const auto number = rest.substr(0, comma);
  if (!parse_unsigned<std::uint32_t>(number)) return std::nullopt;
  of_a_library = is_of_a_library(file);
  const auto function = comma == std::string_view::npos ? std::string_view() : rest.substr(comma);
  return fmt::format("{}:{}{}", file.substr(0, LastWords::longest_line), number,
                     function.substr(0, LastWords::longest_line));
}

// The innermost frame of the user's own code, else the innermost of all.
std::string innermost(std::string_view traceback) {
  std::string last, own;
  for (const auto line : split(traceback, '\n')) {
    bool of_a_library = false;
    auto found = frame(line, of_a_library);
    if (!found) continue;
    if (!of_a_library) own = *found;
    last = std::move(*found);
  }
  return own.empty() ? last : own;
}

std::vector<std::string> first_lines(std::string_view text) {
  std::vector<std::string> lines;
  for (const auto line : split(text, '\n')) {
    if (trim(line).empty() || lines.size() == most_lines) continue;
    lines.emplace_back(line.substr(0, LastWords::longest_line));
  }
  return lines;
}

}  // namespace

std::optional<RecordedError> read_recorded_error(std::string_view json) {
  const Json::parser_callback_t shallow = [](int depth, Json::parse_event_t, Json&) {
    return depth <= deepest;
  };
  const auto whole = Json::parse(json, shallow, /*allow_exceptions=*/false);
  if (!whole.is_object() || !whole.contains("message")) return std::nullopt;
  const auto& message = whole.at("message");
  RecordedError error{message.is_object() ? first_lines(text_at(message, "message"))
                                          : first_lines(text_at(whole, "message"))};
  if (error.what.empty()) return std::nullopt;
  const auto extra = message.is_object() ? message.find("extraInfo") : message.end();
  if (message.is_object() && extra != message.end() && extra->is_object())
    error.where = innermost(text_at(*extra, "py_callstack"));
  return error;
}

}  // namespace trainrun::output
