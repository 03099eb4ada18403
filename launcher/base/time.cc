#include "launcher/base/time.h"

#include <fmt/format.h>

#include "launcher/base/strings.h"

namespace trainrun {
namespace {

constexpr double longest_seconds = 10.0 * 365 * 24 * 3600;

std::optional<Duration> from_seconds(double value) {
  if (!(value >= 0) || value > longest_seconds) return std::nullopt;
  // Rounded without libm: that library alone would cost each start as much as reading the command line.
  return Duration{static_cast<Duration::rep>(value * 1e9 + 0.5)};
}

// Digits with at most one dot; no sign, no exponent, no blanks: what a person types.
std::optional<double> plain_number(std::string_view text) {
  if (text.empty() || text.size() > 15) return std::nullopt;
  double whole = 0, scale = 1;
  bool dot = false, digit = false;
  for (const char c : text) {
    if (c == '.' && !dot) {
      dot = true;
    } else if (c >= '0' && c <= '9') {
      digit = true;
      whole = whole * 10 + (c - '0');
      if (dot) scale *= 10;
    } else {
      return std::nullopt;
    }
  }
  if (!digit) return std::nullopt;
  return whole / scale;
}

}  // namespace

std::optional<Duration> parse_duration(std::string_view text) {
  if (text.find(':') != std::string_view::npos) {
    double total = 0;
    const auto parts = split(text, ':');
    if (parts.size() > 3) return std::nullopt;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto value = plain_number(parts[i]);
      if (!value || (i > 0 && *value >= 60)) return std::nullopt;
      total = total * 60 + *value;
    }
    return from_seconds(total);
  }
  double unit = 1;
  for (const auto& [suffix, factor] :
       {std::pair{std::string_view("ms"), 1e-3}, {"s", 1.0}, {"m", 60.0}, {"h", 3600.0}, {"d", 86400.0}}) {
    if (text.ends_with(suffix)) {
      unit = factor;
      text.remove_suffix(suffix.size());
      break;
    }
  }
  const auto value = plain_number(text);
  if (!value) return std::nullopt;
  return from_seconds(*value * unit);
}

std::string format_duration(Duration duration) {
  const double value = std::chrono::duration<double>(duration).count();
  if (value < 1) return fmt::format("{:.2f} s", value);
  if (value < 60) return fmt::format("{:.1f} s", value);
  const auto whole = static_cast<long long>(value);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
}

}  // namespace trainrun
