#include "launcher/output/bar_rows.h"

#include <algorithm>
#include <utility>

#include "launcher/base/strings.h"

namespace trainrun::output {
namespace {

constexpr std::size_t longest_sequence = 40;
constexpr int farthest = 1000;

struct Token {
  enum class Kind { text, back, up, erase, other };
  Kind kind = Kind::text;
  std::string_view bytes;
  int rows = 0;
};

// ESC [ parameters final; empty when there is none at the start.
std::string_view sequence_at(std::string_view text) {
  if (!text.starts_with("\x1b[")) return {};
  const auto end = text.find_first_not_of("0123456789;:?", 2);
  if (end == std::string_view::npos || end > longest_sequence || text[end] < 0x40) return {};
  return text.substr(0, end + 1);
}

Token take_token(std::string_view& rest) {
  using Kind = Token::Kind;
  Token token;
  if (rest.front() == '\r') {
    token = {Kind::back, rest.substr(0, 1)};
  } else if (const auto sequence = sequence_at(rest); !sequence.empty()) {
    token = {Kind::other, sequence};
    const auto number = sequence.substr(2, sequence.size() - 3);
    switch (sequence.back()) {
      case 'm':
        token.kind = Kind::text;
        break;
      case 'A':
      case 'F':
        token.kind = Kind::up;
        token.rows =
            std::clamp<int>(static_cast<int>(parse_unsigned<std::uint16_t>(number).value_or(1)), 1, farthest);
        break;
      case 'J':
      case 'K':
        token.kind = Kind::erase;
        break;
      default:
        break;
    }
  } else {
    token = {Kind::text, rest.substr(0, std::max<std::size_t>(rest.find_first_of("\r\x1b", 1), 1))};
  }
  rest.remove_prefix(token.bytes.size());
  return token;
}

bool blank(std::string_view text) { return text.find_first_not_of(" \t") == std::string_view::npos; }

}  // namespace

void BarRows::drop(std::map<int, Row>::iterator row) {
  waiting_ -= row->second.waits ? 1 : 0;
  rows_.erase(row);
}

void BarRows::keep(const std::string& text) {
  if (blank(text)) {
    if (const auto row = rows_.find(row_); !text.empty() && row != rows_.end()) drop(row);  // wiped out
    return;
  }
  auto& row = rows_[row_];
  if (row.text != text) {
    row.text = text;
    waiting_ += row.waits ? 0 : 1;
    row.waits = true;
  }
  if (rows_.size() > most_rows) drop(rows_.begin()->first == row_ ? std::next(rows_.begin()) : rows_.begin());
}

// Gives what is still to be ended: behind the last "\r" or the last step up.
std::string BarRows::drawn(std::string_view text) {
  std::string current;
  while (!text.empty()) {
    const auto token = take_token(text);
    switch (token.kind) {
      case Token::Kind::text:
        current += token.bytes;
        break;
      case Token::Kind::back:
      case Token::Kind::up:
        keep(current);
        current.clear();
        returned_ = token.kind == Token::Kind::back;
        row_ -= token.rows;
        up_ = std::min(up_ + token.rows, farthest);
        break;
      case Token::Kind::erase:
        erases_ = true;
        break;
      case Token::Kind::other:
        break;
    }
  }
  return current;
}

void BarRows::draw(std::string_view text) {
  keep(drawn(text));
  returned_ = true;
}

bool BarRows::moves(std::string_view text) const {
  while (up_ == 0 && !text.empty()) {
    if (take_token(text).kind == Token::Kind::up) return true;
  }
  return up_ > 0;
}

std::optional<std::string> BarRows::go_down(std::string_view text) {
  auto last = drawn(text);
  std::optional<std::string> line;
  if (returned_ || erases_) {
    keep(last);
  } else if (!blank(last)) {
    line = std::move(last);
  }
  --up_;
  ++row_;
  returned_ = false;
  erases_ = erases_ && up_ > 0;
  return line;
}

bool BarRows::stands_before(std::string_view text) const { return blank(text) && rows_.contains(row_); }

std::vector<std::string> BarRows::end_line(bool stands) {
  std::vector<std::string> states;
  for (auto& [number, row] : rows_) {
    if (number > row_ || (number == row_ && !stands) || !row.waits) continue;
    row.waits = false;
    --waiting_;
    states.push_back(row.text);
  }
  if (const auto row = rows_.find(row_); row != rows_.end()) drop(row);
  row_ = rows_.empty() ? 0 : row_ + 1;
  returned_ = erases_ = false;
  return states;
}

void BarRows::forget() { *this = {}; }

std::vector<std::string> BarRows::take() {
  std::vector<std::string> states;
  for (auto& [number, row] : rows_) {
    if (std::exchange(row.waits, false)) states.push_back(row.text);
  }
  waiting_ = 0;
  return states;
}

}  // namespace trainrun::output
