#include "tests/fuzz/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "host-discovery/host_grammar.h"
#include "launcher/base/strings.h"
#include "launcher/transport/ssh_words.h"

namespace trainrun::fuzz {
namespace {

std::uint64_t taken = 0;

constexpr std::size_t longest_message = 4096;

}  // namespace

void broken(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
  std::abort();
}

void show(std::string_view label, std::string_view text) {
  fmt::print(stderr, "{}: {}\n", label, quoted(text, 2000));
}

void accepted() { ++taken; }
std::uint64_t accepted_so_far() { return taken; }

std::uint8_t Bytes::byte() {
  const auto one = take(1);
  return one.empty() ? std::uint8_t{0} : static_cast<std::uint8_t>(one.front());
}

std::string_view Bytes::take(std::size_t most) {
  const auto part = rest_.substr(0, most);
  rest_.remove_prefix(part.size());
  return part;
}

bool has_control(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte == 0x7f) return true;
    if (byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0) return true;
  }
  return false;
}

void check_error(const Error& error, std::string_view begins) {
  const bool good = !error.message.empty() && error.message.starts_with(begins) &&
                    error.message.size() + error.hint.size() <= longest_message &&
                    !has_control(error.message) && !has_control(error.hint);
  if (!good) show("error", error.message), show("hint", error.hint), show("expected to begin with", begins);
  FUZZ_CHECK(good);
}

std::size_t lines_in(std::string_view text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
}

void check_line_number(const Error& error, std::string_view begins, std::size_t lines) {
  check_error(error, begins);
  const auto rest = std::string_view(error.message).substr(begins.size());
  const auto number = parse_unsigned<std::uint64_t>(rest.substr(0, rest.find(':')));
  if (!number) show("error", error.message);
  FUZZ_CHECK(number && *number >= 1 && *number <= lines);
}

void check_hosts(const std::vector<Host>& hosts) {
  for (const auto& host : hosts) {
    FUZZ_CHECK(hosts::check_name(host.name));
    FUZZ_CHECK(host.user.empty() || hosts::check_user(host.user));
    FUZZ_CHECK(transport::check_names(host));
    FUZZ_CHECK(host.slots >= 1 && host.slots <= 65535);
    FUZZ_CHECK(host.identity.find('\n') == std::string::npos);
    FUZZ_CHECK(host.identity.find('\0') == std::string::npos);
  }
}

std::string item_of(const Host& host) {
  auto text = host.name.find(':') == std::string::npos ? host.name : "[" + host.name + "]";
  if (!host.user.empty()) text = host.user + "@" + text;
  if (host.port != 0) return fmt::format("ssh://{}:{}", text, host.port);
  return host.slots_given ? fmt::format("{}:{}", text, host.slots) : text;
}

}  // namespace trainrun::fuzz
