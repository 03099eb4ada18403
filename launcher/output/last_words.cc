#include "launcher/output/last_words.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "launcher/base/strings.h"
#include "launcher/base/utf8.h"
#include "launcher/output/terminal_text.h"

namespace trainrun::output {
namespace {

constexpr std::size_t tail_lines = 10, exception_lines = 6, most_following = 20;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// torch puts "[rank3]: " before each line of a traceback, and "[rank3]:" before its log.
std::string_view without_rank(std::string_view line) {
  if (!line.starts_with("[rank")) return line;
  const auto end = line.find_first_not_of("0123456789", 5);
  if (end == 5 || end == std::string_view::npos || !line.substr(end).starts_with("]:")) return line;
  line.remove_prefix(end + 2);
  if (line.starts_with(' ')) line.remove_prefix(1);
  return line;
}

// "[W1122 14:03:22.118 ProcessGroupNCCL.cpp:1250] ...": a line of the log of torch's C++, with or without the
// bracket.
bool is_log_line(std::string_view line) {
  if (line.starts_with('[')) line.remove_prefix(1);
  constexpr std::string_view form = "L0000 00:00:00";
  if (line.size() < form.size() || std::string_view("IWEF").find(line[0]) == std::string_view::npos)
    return false;
  for (std::size_t i = 1; i < form.size(); ++i) {
    if (form[i] == '0' ? !is_digit(line[i]) : line[i] != form[i]) return false;
  }
  return true;
}

bool is_noise(std::string_view line) {
  return is_log_line(line) || line.starts_with("wandb: ") ||
         line.find("resource_tracker: ") != std::string_view::npos ||
         (line.starts_with("[rank: ") && line.find("Child process with PID") != std::string_view::npos) ||
         line == "During handling of the above exception, another exception occurred:" ||
         line == "The above exception was the direct cause of the following exception:";
}

bool has_one_of(std::string_view text, std::span<const std::string_view> signs) {
  return std::any_of(signs.begin(), signs.end(),
                     [text](auto sign) { return text.find(sign) != std::string_view::npos; });
}

// What MPI libraries, UCX, glibc, the sanitizers and assert() say before they say much more.
constexpr std::string_view headlines[] = {
    "Fatal error in ",    "Caught signal ", "terminate called ", "*** Process received signal",
    "AddressSanitizer: ", "MPI_ERR",        "Assertion ",        "MPI_ABORT was invoked"};
bool is_headline(std::string_view line) { return has_one_of(line, headlines); }

// What begins an exception, and what has to be taken out of a line before it can be told from others.
constexpr std::string_view line_by_line[] = {"Traceback ", "Exception ignored ", "\x1b", "\r"};

// " 3  /lib/libucs.so.0(ucs_handle_error+0x2dc) [0x7f...]", "[node1:42] [ 1] /lib/libc.so.6(+0x3c)
// [0x7f...]", and the rules that UCX draws around them.
bool is_backtrace(std::string_view line) {
  line = trim(line);
  if (line.size() > 3 && line.find_first_not_of("=-*") == std::string_view::npos) return true;
  if (line.starts_with("==== backtrace")) return true;
  return line.ends_with(']') && line.find(") [0x") != std::string_view::npos;
}

constexpr std::string_view traceback = "Traceback (most recent call last):",
                           group_traceback = "Exception Group Traceback (most recent call last):";

// Python draws what is in an exception group behind rules: "  | ValueError: bad batch", "  +-+---- 1 ----".
// Nothing: the line stands behind none.
std::optional<std::string_view> behind_rule(std::string_view line) {
  const auto start = line.find_first_not_of(' ');
  if (start == std::string_view::npos || (line[start] != '|' && line[start] != '+')) return std::nullopt;
  line.remove_prefix(start + 1);
  if (line.starts_with(' ')) line.remove_prefix(1);
  return line;
}

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

std::string blanks_for_tabs(std::string_view line) {
  std::string text(line);
  for (auto tab = text.find('\t'); tab != std::string::npos; tab = text.find('\t', tab))
    text.replace(tab, 1, 4, ' ');
  return text;
}

}  // namespace

void LastLines::add(std::string_view line) {
  if (is_blank(line)) return;
  lines_[added_++ % lines_.size()].assign(first_bytes(line, LastWords::longest_line));
}

void LastLines::add_lines(std::string_view text) {
  std::array<std::string_view, std::tuple_size_v<decltype(lines_)>> last;
  std::size_t found = 0;
  while (!text.empty() && found < last.size()) {
    text.remove_suffix(1);
    const auto start = text.rfind('\n') + 1;  // npos + 1 is 0
    if (const auto line = text.substr(start); !is_blank(line)) last[found++] = line;
    text = text.substr(0, start);
  }
  while (found > 0) add(last[--found]);
}

std::vector<std::string> LastLines::lines() const {
  std::vector<std::string> found;
  for (std::size_t i = added_ - std::min(added_, lines_.size()); i < added_; ++i)
    found.push_back(lines_[i % lines_.size()]);
  return found;
}

void LastWords::add(std::string_view line) {
  if (line.find('\r') != std::string_view::npos) {  // it redraws a line
    const auto redraw = line.find_last_not_of('\r');
    line = line.substr(0, redraw == std::string_view::npos ? 0 : redraw + 1);
    line.remove_prefix(line.rfind('\r') + 1);  // npos + 1 is 0
  }
  if (line.find_first_not_of(" \t") == std::string_view::npos) return;
  auto plain = without_colours(blanks_for_tabs(first_bytes(line, longest_line)));
  follow_traceback(plain);
  if (is_backtrace(plain)) return;
  tail_.push_back(std::move(plain));
  if (tail_.size() > tail_lines) displace_first();
}

void LastWords::displace_first() {
  if (is_headline(tail_.front())) headline_ = std::move(tail_.front());
  tail_.pop_front();
}

void LastWords::add_lines(std::string_view text) {
  if (state_ == State::nothing && !in_group_ && !next_is_ignored_ && !has_one_of(text, line_by_line) &&
      !has_one_of(text, headlines)) {
    // So much of the end as displaces all else, if there is so much.
    std::size_t start = text.size(), found = 0;
    while (start > 0 && found < tail_lines) {
      const auto end = start - 1;                   // its "\n"
      start = text.substr(0, end).rfind('\n') + 1;  // npos + 1 is 0
      const auto line = text.substr(start, end - start);
      if (!is_blank(line) && !is_backtrace(first_bytes(line, longest_line))) ++found;
    }
    if (found == tail_lines) {
      while (!tail_.empty()) displace_first();
      text.remove_prefix(start);
    }
  }
  while (!text.empty()) {
    const auto end = text.find('\n');
    add(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
}

void LastWords::follow_traceback(const std::string& full) {
  auto line = without_rank(full);
  const auto inner = behind_rule(line);
  if (!in_group_ && inner == group_traceback) {
    in_group_ = true;
    state_ = State::frames;
    exception_.clear();
    return;
  }
  in_group_ = in_group_ && inner;
  if (in_group_) {
    line = *inner;
    if (line.starts_with('-')) return;
    if (line == traceback || line == group_traceback) {  // of one of its exceptions
      state_ = State::frames;
      return;
    }
  }
  if (line.empty()) return;
  if (line.starts_with(traceback)) {
    if (std::exchange(next_is_ignored_, false)) {
      state_ = State::ignored;
      return;
    }
    state_ = State::frames;
    exception_.clear();
    return;
  }
  next_is_ignored_ = line.starts_with("Exception ignored ");
  switch (state_) {
    case State::nothing:
      return;
    case State::frames:
      if (line.starts_with(' ')) return;
      if (exception_.size() == exception_lines) exception_.erase(exception_.begin() + 1);
      exception_.emplace_back(line);
      following_ = 0;
      state_ = State::words;
      return;
    case State::ignored:
      if (!line.starts_with(' ')) state_ = exception_.empty() ? State::nothing : State::words;
      return;
    case State::words:
      if (next_is_ignored_ || is_noise(line)) return;
      if (++following_ > most_following) {
        state_ = State::nothing;
        exception_.clear();
        return;
      }
      if (exception_.size() == exception_lines) exception_.erase(exception_.begin() + 1);
      exception_.emplace_back(line);
      return;
  }
}

std::vector<std::string> LastWords::lines() const {
  if (state_ == State::words) return exception_;
  std::vector<std::string> lines(tail_.begin(), tail_.end());
  if (!headline_.empty()) lines.front() = headline_;
  return lines;
}

}  // namespace trainrun::output
