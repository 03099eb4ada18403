// Why a rank ended, as far as its stderr says: its last lines, or of a Python program that ended by an
// exception this alone.
//
// A traceback is told by its form: a line "Traceback (most recent call last):", indented frames, and then the
// exception with what belongs to it (further lines of its message, notes). Of chained exceptions the last
// counts. What torch, Lightning and the interpreter say on their way out is passed over; when much else
// follows, the exception was survived, and the last lines count again.
//
// Of a program that is not Python the line that says what happened often comes first, with much after it: it
// stays when the others have been displaced. Frames of a backtrace stand above, and are not told again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace trainrun::output {

// The last lines of a stream, nothing more: a line costs a copy of its first bytes.
class LastLines {
 public:
  void add(std::string_view line);
  void add_lines(std::string_view text);  // many, each with its "\n": the last ones alone cost anything
  [[nodiscard]] std::vector<std::string> lines() const;  // oldest first

 private:
  std::array<std::string, 3> lines_;
  std::size_t added_ = 0;
};

class LastWords {
 public:
  static constexpr std::size_t longest_line = 300;  // bytes; longer ones are cut

  void add(std::string_view line);
  // Many, each with its "\n". Where none of them could begin an exception or say what happened, all but the
  // last ones cost no more than to look for that.
  void add_lines(std::string_view text);
  [[nodiscard]] bool raised() const { return state_ == State::words; }  // they are an exception's
  [[nodiscard]] std::vector<std::string> lines() const;                 // oldest first, without colours

 private:
  void follow_traceback(const std::string& line);
  void displace_first();

  enum class State : std::uint8_t {
    nothing,
    frames,   // of a traceback: its exception comes
    ignored,  // the same, of one that the interpreter could only report
    words     // after the exception
  };
  State state_ = State::nothing;
  bool next_is_ignored_ = false;
  bool in_group_ = false;               // within the traceback of a group of exceptions
  std::vector<std::string> exception_;  // its first line, and the last ones of what follows
  std::size_t following_ = 0;
  std::deque<std::string> tail_;
  std::string headline_;  // the last one that is no more in the tail; may be empty
};

}  // namespace trainrun::output
