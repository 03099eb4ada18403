#include "launcher/discovery/complaints.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/base/strings.h"

namespace trainrun {
namespace {
constexpr std::size_t longest_line = 300;
constexpr std::size_t most_a_minute = 20;
}  // namespace

void Complaints::add(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    const auto part = bytes.substr(0, end);
    if (line_.size() <= longest_line) line_ += part.substr(0, longest_line + 1 - line_.size());
    if (end == std::string_view::npos) return;
    finish_line();
    bytes.remove_prefix(end + 1);
  }
}

void Complaints::end() { finish_line(); }

void Complaints::finish_line() {
  const auto line = std::exchange(line_, {});
  const auto text = trim(line);
  if (text.empty()) return;
  last_ = quoted(text, longest_line);
  if (lines_.size() < most_lines) {
    lines_.push_back(last_);
  } else {
    ++more_;
  }
}

std::vector<std::string> ComplaintFilter::choose(const std::vector<std::string>& lines, std::size_t more,
                                                 Instant now) {
  const auto before = std::exchange(last_, lines);
  while (!shown_.empty() && now - shown_.front() >= seconds(60)) shown_.pop_front();
  std::vector<std::string> out;
  for (const auto& line : lines) {
    if (std::find(before.begin(), before.end(), line) != before.end()) continue;
    if (shown_.size() >= most_a_minute) {
      if (!std::exchange(muted_, true)) out.emplace_back("(too much on stderr; more is not shown for now)");
      return out;
    }
    muted_ = false;
    shown_.push_back(now);
    out.push_back(line);
  }
  if (more > 0 && !out.empty())
    out.push_back(fmt::format("({} more {})", more, more == 1 ? "line" : "lines"));
  return out;
}

}  // namespace trainrun
