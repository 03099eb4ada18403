#include "tests/fuzz/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "launcher/base/fd.h"
#include "launcher/base/strings.h"

namespace trainrun::fuzz {
namespace {

constexpr std::size_t largest_file = 1u << 20;

std::optional<char> hex_byte(std::string_view digits) {
  unsigned char byte = 0;
  if (digits.size() < 2) return std::nullopt;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + 2, byte, 16);
  if (error != std::errc{} || end != digits.data() + 2) return std::nullopt;
  return static_cast<char>(byte);
}

Result<std::string> bytes_of_hex(std::string_view text, const std::string& path) {
  std::string bytes;
  std::size_t number = 0;
  for (auto line : split(text, '\n')) {
    ++number;
    while (!line.empty() && line.front() != '#') {
      if (line.front() == ' ') {
        line.remove_prefix(1);
      } else if (const auto end = line.find('"', 1); line.front() == '"' && end != std::string_view::npos) {
        bytes += line.substr(1, end - 1);
        line.remove_prefix(end + 1);
      } else if (const auto byte = hex_byte(line)) {
        bytes += *byte;
        line.remove_prefix(2);
      } else {
        return fail(Code::config,
                    fmt::format("{}:{}: {} is no hexadecimal byte", path, number, quoted(line)));
      }
    }
  }
  return bytes;
}

// What stands between the first and the last quote of a line.
std::string unescaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto byte = text.starts_with("\\x") ? hex_byte(text.substr(2)) : std::nullopt;
    if (byte) {
      out += *byte;
      text.remove_prefix(4);
      continue;
    }
    if (text.front() == '\\' && text.size() > 1) text.remove_prefix(1);
    out += text.front();
    text.remove_prefix(1);
  }
  return out;
}

}  // namespace

Result<std::vector<Seed>> read_corpus(const std::string& directory) {
  std::vector<Seed> seeds;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    auto bytes = read_file(entry.path(), largest_file);
    if (bytes && entry.path().extension() == ".hex") bytes = bytes_of_hex(*bytes, entry.path());
    if (!bytes) return tl::unexpected(bytes.error());
    seeds.push_back({entry.path().filename(), std::move(*bytes)});
  }
  if (seeds.empty()) return fail(Code::not_found, directory + " holds no input");
  std::sort(seeds.begin(), seeds.end(), [](const Seed& a, const Seed& b) { return a.name < b.name; });
  return seeds;
}

Result<std::vector<std::string>> read_dictionary(const std::string& path) {
  std::vector<std::string> words;
  if (!std::filesystem::exists(path)) return words;
  const auto text = read_file(path, largest_file);
  if (!text) return tl::unexpected(text.error());
  for (const auto line : split(*text, '\n')) {
    const auto first = line.find('"'), last = line.rfind('"');
    if (line.starts_with('#') || first == last) continue;
    words.push_back(unescaped(line.substr(first + 1, last - first - 1)));
  }
  return words;
}

}  // namespace trainrun::fuzz
