#include "launcher/core/shown_words.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "launcher/base/strings.h"
#include "launcher/core/env_forward.h"

namespace trainrun::core {
namespace {

// What tokens of well-known services begin with, before at least so many letters and digits.
constexpr std::string_view tokens[] = {
    "hf_",  "ghp_", "gho_", "ghu_", "ghs_",  "github_pat_", "glpat-", "sk-", "xoxb-",    "xoxp-",
    "AKIA", "ASIA", "AIza", "npm_", "pypi-", "nvapi-",      "gsk_",   "r8_", "dckr_pat_"};
constexpr std::size_t least_of_token = 16;

bool is_number(std::string_view text) {
  return text.find_first_not_of("0123456789.") == std::string_view::npos;
}

bool is_of_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
}

// Three parts with dots between them, of which the first begins as JSON does in base64.
bool is_web_token(std::string_view text) {
  constexpr std::size_t least = 32;
  return text.starts_with("eyJ") && text.size() >= least && std::count(text.begin(), text.end(), '.') == 2;
}

// A name that people give has no such mixture: hf_transformer_training, sk-learn-pipeline.
bool is_token(std::string_view text) {
  if (is_web_token(text)) return true;
  const auto* const begin = std::find_if(std::begin(tokens), std::end(tokens),
                                         [&](std::string_view it) { return text.starts_with(it); });
  if (begin == std::end(tokens)) return false;
  const auto rest = text.substr(begin->size());
  const bool digit = rest.find_first_of("0123456789") != std::string_view::npos;
  const bool letter = std::any_of(rest.begin(), rest.end(),
                                  [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; });
  const bool joined = rest.find_first_of(begin->ends_with('-') || *begin == "github_pat_" ? "." : "._-") !=
                      std::string_view::npos;
  return rest.size() >= least_of_token && digit && letter && !joined;
}

// Options of dotted names, as of Hydra's configurations, are judged by what stands behind the dots too.
bool is_secret(std::string name) {
  const bool option = name.starts_with('-');
  name.erase(0, name.find_first_not_of('-'));
  for (auto& c : name) c = c == '-' || (option && c == '.') ? '_' : c;
  return is_secret_name(name) || (option && (name == "pwd" || name.ends_with("_pwd")));
}

// What curl and wget take: `-u user:password`, also as one word. Not numbers, as of containers (`-u
// 1000:1000`).
bool names_user(std::string_view option) { return option == "-u" || option == "--user"; }
bool holds_user(std::string_view word) { return word.starts_with("-u"); }
std::string without_password(const std::string& word) {
  const auto colon = word.find(':');
  const bool password = colon != std::string::npos && colon > 0 && colon + 1 < word.size() &&
                        !is_number(word.substr(colon + 1)) && word[colon + 1] != '/';
  return password ? word.substr(0, colon + 1) + std::string(redacted) : word;
}

// `Bearer xyz` and `Basic xyz` of an HTTP header; the second is plain English as well.
bool is_bearer(std::string_view name) { return name == "Bearer" || name == "bearer"; }
bool is_scheme(std::string_view name) { return is_bearer(name) || name == "Basic"; }

// Shorter names are those of code: sorted(x, key=len).
constexpr std::size_t least_of_name = 4;

bool is_quote(char c) { return c == '"' || c == '\''; }
bool is_blank(char c) { return c == ' ' || c == '\t'; }

// Past a quote, which a shell's string may have escaped.
std::size_t past_quote(std::string_view word, std::size_t at) {
  const auto quote = at + (at < word.size() && word[at] == '\\' ? 1 : 0);
  return quote < word.size() && is_quote(word[quote]) ? quote + 1 : at;
}

// Where the value begins that belongs to the name before `at`, as in `name=xyz`, `name: xyz`, `"name":
// "xyz"`, and of an option or a scheme `--name xyz`; npos: none.
std::size_t value_behind(std::string_view word, std::size_t at, bool spaced) {
  at = past_quote(word, at);
  const bool joined = at < word.size() && (word[at] == '=' || word[at] == ':');
  if (!joined && !(spaced && at < word.size() && is_blank(word[at]))) return std::string_view::npos;
  if (joined) ++at;
  if (word.substr(at).starts_with("//")) return std::string_view::npos;
  while (at < word.size() && is_blank(word[at])) ++at;
  return past_quote(word, at);
}

// Where a value ends that begins there: one in quotes at the next of them.
std::size_t end_of_value(std::string_view word, std::size_t at) {
  if (at == 0 || !is_quote(word[at - 1]))
    return std::min(word.find_first_of(" \t\n\"';&,}", at), word.size());
  auto end = std::min(word.find(word[at - 1], at), word.size());
  return end > at && word[end - 1] == '\\' ? end - 1 : end;
}

// A word that may hold several things: a header, a piece of JSON or of shell, a connection string.
std::string without_secrets(std::string_view word) {
  std::string out;
  bool authorizes = false;  // a scheme is the value of a credential's name
  for (std::size_t at = 0; at < word.size();) {
    std::size_t end = at;
    while (end < word.size() && is_of_name(word[end])) ++end;
    if (end == at) {
      out += word[at++];
      continue;
    }
    const auto name = word.substr(at, end - at);
    at = end;
    if (is_token(name)) {
      out += redacted;
      continue;
    }
    out += name;
    const bool scheme = is_bearer(name) || (std::exchange(authorizes, false) && is_scheme(name));
    if (!scheme && (name.size() < least_of_name || !is_secret(std::string(name)))) continue;
    const bool option = name.starts_with('-');
    const auto value = value_behind(word, end, scheme || option);
    if (value == std::string_view::npos) continue;
    const auto behind = end_of_value(word, value);
    const auto text = word.substr(value, behind - value);
    authorizes = is_scheme(text);
    if (text.empty() || is_number(text) || authorizes || (option && text.starts_with('-'))) continue;
    out += word.substr(end, value - end);
    out += redacted;
    at = behind;
  }
  return out;
}

}  // namespace

std::vector<std::string> shown_words(const std::vector<std::string>& argv) {
  std::vector<std::string> out;
  bool secret_next = false, user_next = false;
  for (const auto& word : argv) {
    const auto equals = word.find('=');
    const auto name = word.substr(0, equals);
    const bool secret = std::all_of(name.begin(), name.end(), is_of_name) && is_secret(name);
    if ((secret_next && !word.starts_with('-') && !is_number(word)) || has_password(word)) {
      out.emplace_back(redacted);
    } else if (secret && equals != std::string::npos && !is_number(word.substr(equals + 1))) {
      out.push_back(word.substr(0, equals + 1) + std::string(redacted));
    } else {
      out.push_back(without_secrets(user_next || holds_user(word) ? without_password(word) : word));
    }
    user_next = names_user(word);
    secret_next = secret && equals == std::string::npos && word.starts_with('-');
  }
  return out;
}

std::string shown_line(const std::vector<std::string>& argv) {
  std::string line;
  for (const auto& word : shown_words(argv)) {
    // The mark would be quoted for its brackets alone.
    const auto before = word.ends_with(redacted) ? word.substr(0, word.size() - redacted.size()) : word;
    const bool plain = before.size() < word.size() && (before.empty() || shell_quote(before) == before);
    line += (line.empty() ? "" : " ") + (plain ? word : shell_quote(word));
  }
  return line;
}

std::string shown_command(const std::string& line) { return shown_words({line}).front(); }

std::string shown_value(const std::string& name, const std::string& value) {
  if (value.empty()) return value;
  return is_secret_name(name) ? std::string(redacted) : shown_command(value);
}

}  // namespace trainrun::core
