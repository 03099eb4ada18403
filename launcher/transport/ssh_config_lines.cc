#include "launcher/transport/ssh_config_lines.h"

#include <strings.h>

#include <utility>
#include <vector>

#include "launcher/base/strings.h"

namespace trainrun::transport {
namespace {

constexpr int deepest = 16;  // of an Include in another, as ssh has it
// Of which each can name several, itself too.
constexpr int most_includes = 1000;

// "Host a b", "Host=a", `Host "a"`; a comment and an empty line have no words.
std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  bool quoted = false;
  for (const char c : line) {
    const bool ends = !quoted && (c == ' ' || c == '\t' || c == '\r' || (c == '=' && words.size() < 2));
    if (c == '"') quoted = !quoted;
    if (c == '#' && words.empty() && word.empty()) return {};
    if (!ends && c != '"') word += c;
    if (ends && !word.empty()) words.push_back(std::exchange(word, {}));
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

// As ssh does: one pattern must match, and none with a `!` before it.
bool matches(const std::vector<std::string>& words, const std::string& name) {
  bool found = false;
  for (auto word = words.begin() + 1; word < words.end(); ++word) {
    const bool not_this = word->starts_with('!');
    if (!matches_glob(std::string_view(*word).substr(not_this ? 1 : 0), name)) continue;
    if (not_this) return false;
    found = true;
  }
  return found;
}

}  // namespace

std::optional<std::string> SshConfigLines::misread(std::string_view text) { return misread(text, 0); }

std::optional<std::string> SshConfigLines::misread(std::string_view text, int depth) {
  bool holds = true;  // what stands before the first block is for all hosts
  for (const auto line : split(text, '\n')) {
    const auto words = words_of(line);
    if (words.size() < 2) continue;
    const auto is = [&](const char* keyword) { return ::strcasecmp(words[0].c_str(), keyword) == 0; };
    if (is("Match")) holds = false;
    if (is("Host")) {
      holds = matches(words, given_);
      if (renamed_ && holds != matches(words, address_)) return std::string(trim(line));
    }
    if (is("HostName") && holds) renamed_ = true;
    if (!is("Include") || !holds || depth == deepest) continue;
    for (auto word = words.begin() + 1; word < words.end() && includes_ < most_includes; ++word) {
      ++includes_;
      if (auto line_there = misread(included_(*word), depth + 1)) return line_there;
    }
  }
  return std::nullopt;
}

}  // namespace trainrun::transport
