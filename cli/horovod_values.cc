#include "cli/horovod_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <limits>

#include "cli/letters.h"
#include "cli/value.h"
#include "launcher/base/strings.h"

namespace trainrun::cli {

namespace {

constexpr std::uint64_t megabyte = 1u << 20, most_megabytes = 1u << 20;

// Not std::from_chars: libstdc++'s would load libm at every start.
std::optional<double> parse_real(const std::string& text) {
  if (text.empty() || text.front() == '+' || text.find_first_not_of("0123456789.eE+-") != std::string::npos)
    return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end == text.c_str() + text.size() && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

bool is_level(std::string_view text) {
  constexpr std::string_view levels[] = {"TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "FATAL"};
  return std::find(std::begin(levels), std::end(levels), text) != std::end(levels);
}

// YAML 1.1's 1_000 and 0x10 without its ways; what else there is stays as it is.
std::string plain_number(std::string text) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return text;
  std::erase(text, '_');
  if (!text.starts_with("0x") || text.size() > 10) return text;
  char* end = nullptr;
  const auto value = std::strtoul(text.c_str(), &end, 16);
  return end == text.c_str() + text.size() && text.size() > 2 ? std::to_string(value) : text;
}

// Files have 32.0, too, where a whole number is meant.
std::optional<std::uint64_t> count_of(const std::string& given, std::uint64_t unit, std::uint64_t most,
                                      bool by_flag) {
  const auto dot = given.find('.');
  const bool fraction =
      dot != std::string::npos && given.find_first_not_of('0', dot + 1) != std::string::npos;
  if (!fraction) {
    const auto whole = parse_unsigned<std::uint64_t>(std::string_view(given).substr(0, dot));
    return whole && *whole <= most ? std::optional(*whole * unit) : std::nullopt;
  }
  const auto real = by_flag ? std::nullopt : parse_real(given);
  if (!real || *real < 0 || *real > static_cast<double>(most)) return std::nullopt;
  return static_cast<std::uint64_t>(*real * static_cast<double>(unit));
}

}  // namespace

std::optional<bool> yaml_bool(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const auto word = lower(text);
  // "tRue" is a text there.
  const bool first_at_most = text.substr(1) == std::string_view(word).substr(1);
  const bool all = std::none_of(text.begin(), text.end(), [](char c) { return c >= 'a' && c <= 'z'; });
  return first_at_most || all ? parse_bool(word) : std::nullopt;
}

Result<std::string> value_of_variable(Knob knob, const std::string& given, bool by_flag) {
  const auto refuse = [&](std::string_view wanted) {
    return fail(Code::usage, fmt::format("{} is not {}", quoted(given, 40), wanted));
  };
  const auto number = by_flag ? given : plain_number(given);
  switch (knob) {
    case Knob::none:
    case Knob::text:
      return given;
    case Knob::count: {
      const auto count = count_of(number, 1, std::numeric_limits<std::uint32_t>::max(), by_flag);
      if (!count) return refuse("a number of 0 or more");
      return std::to_string(*count);
    }
    case Knob::megabytes: {
      const auto bytes = count_of(number, megabyte, most_megabytes, by_flag);
      if (!bytes) return refuse("a number of megabytes");
      return std::to_string(*bytes);
    }
    case Knob::real:
      if (parse_real(number).value_or(-1) < 0) return refuse("a number of 0 or more");
      return number;
    case Knob::share: {
      const auto share = parse_real(number);
      if (!share || *share < 0 || *share > 1) return refuse("a number from 0 to 1");
      return number;
    }
    case Knob::level:
      if (!is_level(given)) return refuse("one of TRACE, DEBUG, INFO, WARNING, ERROR, FATAL");
      return given;
  }
  return given;
}

}  // namespace trainrun::cli
