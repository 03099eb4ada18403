// A script's stderr as lines that may be shown: few, short and printable, whatever it writes.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/base/time.h"

namespace trainrun {

// Takes one run's stderr as it comes.
class Complaints {
 public:
  static constexpr std::size_t most_lines = 5;

  void add(std::string_view bytes);
  void end();  // a last line without its end counts too

  [[nodiscard]] const std::vector<std::string>& lines() const { return lines_; }
  [[nodiscard]] std::size_t more() const { return more_; }
  [[nodiscard]] const std::string& last() const { return last_; }  // empty: there was none

 private:
  void finish_line();

  std::string line_;  // so far, cut at its limit
  std::vector<std::string> lines_;
  std::size_t more_ = 0;
  std::string last_;
};

// Which of them are shown: a script that complains in the same words each second is heard once, and one that
// finds new words at most 20 times a minute.
class ComplaintFilter {
 public:
  // The lines to show of a run that ended at `now`.
  std::vector<std::string> choose(const std::vector<std::string>& lines, std::size_t more, Instant now);

 private:
  std::vector<std::string> last_;  // of the last run
  std::deque<Instant> shown_;      // within the last minute
  bool muted_ = false;
};

}  // namespace trainrun
